"""All ranks in one process: the meaning of the language, against which everything else is tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from algorithms.ir import Op, Schedule, Value
from algorithms.ir.expr import Ints
from algorithms.ir.order import lifetimes
from algorithms.ops import is_view, module
from algorithms.ops.collective import meaning, shard_rows
from algorithms.ops.load import held_heads
from algorithms.ops.permute import senders
from algorithms.ways.transfers import rounds
from executor.arrays import Arrays, Positions, loaded
from executor.blocks import dtypes, nbytes
from executor.interpret import bind, kernel_called
from executor.kernels import Kernel

Tensors = tuple[Any, ...]
Blocks = dict[int, Tensors]


@dataclass(frozen=True)
class Run:
    """What a run left behind.

    Attributes:
        results: each result's arrays, by rank.
        sent: bytes each rank sent in each op, (ops, ranks); a collective counts only when a way carried it.
        peak: most bytes of live values on each rank, (ranks,).
        received: most blocks that had come by permute and were still held, at any time.
    """

    results: Mapping[str, list[Any]]
    sent: Ints
    peak: Ints
    received: int


def run(
    schedule: Schedule,
    arrays: Arrays,
    xp: ModuleType | Any = np,
    kernel: str | Kernel = "numba",
    ways: Mapping[str, str] | None = None,
) -> Run:
    """Run all ranks of a schedule, in the fixed order of its steps.

    Args:
        arrays: the whole inputs, as NumPy arrays.
        xp: array library that holds the ranks' arrays, of the Python array API standard.
        ways: carry collectives out in these ways, or the default ones where none is said; None: by definition.
    """
    ranks, live = Ranks(schedule, arrays, xp, kernel_called(kernel), ways), Live(schedule.mesh.size)
    for (action, op), _, dead in lifetimes(schedule):
        if action != "wait":
            inputs = [[live.values[v.id][r] for v in op.inputs] for r in range(schedule.mesh.size)]
            live.begin(op, checked(op, ranks.outputs(op, inputs), schedule))
        for v in dead:
            live.end(v)
    results = {name: live.values[v.id] for name, v in schedule.results.items()}
    return Run(results, ranks.sent, live.peak, live.received)


def checked(op: Op, outputs: Sequence[Tensors], schedule: Schedule) -> Sequence[Tensors]:
    """Return what an op wrote on each rank, sure that it is what its types say.

    Raises:
        TypeError: an array of another shape or dtype.
    """
    grid = schedule.mesh.grid()
    for k, v in enumerate(op.outputs):
        for rank, rows in enumerate(schedule.mesh.spread(v.type.rows.at(grid)).tolist()):
            array, shape = outputs[rank][k], (rows, *v.type.width)
            dtype = getattr(array.dtype, "name", v.type.dtype)  # only NumPy's dtypes have names
            if array.shape != shape or dtype != v.type.dtype:
                got = f"{dtype} {array.shape}"
                raise TypeError(f"op {op.id} {op.kind} wrote {got} on rank {rank}, its type is {v.type.dtype} {shape}")
    return outputs


class Live:
    """The values that are live on all ranks, by id, and the most they took, measured on the arrays."""

    def __init__(self, ranks: int) -> None:
        """Start with nothing."""
        self.values: dict[int, list[Any]] = {}
        self.now, self.peak = np.zeros((2, ranks), dtype=np.int64)
        self.received, self._blocks, self._views = 0, dict[int, int](), set[int]()

    def begin(self, op: Op, outputs: Sequence[Tensors]) -> None:
        """Take in what an op wrote, rank by rank."""
        for k, v in enumerate(op.outputs):
            self.values[v.id] = [mine[k] for mine in outputs]
            if is_view(op):
                self._views.add(v.id)
            self.now += self._nbytes(v)
            if op.kind == "permute":
                self._blocks[v.id] = op.id
        self.peak = np.maximum(self.peak, self.now)
        self.received = max(self.received, len(set(self._blocks.values())))

    def end(self, v: Value) -> None:
        """Let go of what nothing reads any more."""
        self.now -= self._nbytes(v)
        self._blocks.pop(v.id, None)
        del self.values[v.id]

    def _nbytes(self, v: Value) -> Ints | int:
        if v.id in self._views:
            return 0
        return np.array([x.size for x in self.values[v.id]], dtype=np.int64) * np.dtype(v.type.dtype).itemsize


class Ranks:
    """What the ranks of a mesh do, op by op."""

    def __init__(
        self, schedule: Schedule, arrays: Arrays, xp: Any, kernel: Kernel, ways: Mapping[str, str] | None
    ) -> None:
        """Start with the whole inputs; nothing was sent yet."""
        self.schedule, self.mesh, self.arrays = schedule, schedule.mesh, arrays
        self.xp, self.kernel, self.ways = xp, kernel, ways
        self.positions = Positions(schedule)
        self.sent = np.zeros((len(schedule.ops), self.mesh.size), dtype=np.int64)

    def outputs(self, op: Op, inputs: Sequence[Sequence[Any]]) -> Sequence[Tensors]:
        """What an op writes on each rank."""
        if op.kind == "load":
            return [(self.xp.asarray(loaded(op, self.arrays, self.schedule, rank)),) for rank in range(self.mesh.size)]
        if op.kind == "permute":
            return self._permuted(op, inputs)
        return self._computed(op, inputs) if op.stream is None else self._collected(op, inputs)

    def _computed(self, op: Op, inputs: Sequence[Sequence[Any]]) -> list[Tensors]:
        def on(rank: int) -> Tensors:
            def heads(value: Value) -> Ints:
                return held_heads(value, self.schedule.problem, self.mesh, rank, self.schedule.problem.heads)

            meant = bind(op, lambda tokens: self.positions.all(tokens)[rank], self.kernel, self.xp, heads)
            return meant(*inputs[rank])

        return [on(rank) for rank in range(self.mesh.size)]

    def _permuted(self, op: Op, inputs: Sequence[Sequence[Any]]) -> list[Tensors]:
        sender = senders(op, self.mesh).tolist()
        for rank, source in enumerate(sender):
            if source != rank:
                self.sent[op.id, source] += nbytes(inputs[source], [np.dtype(v.type.dtype) for v in op.inputs])
        return [tuple(inputs[source]) for source in sender]

    def _collected(self, op: Op, inputs: Sequence[Sequence[Any]]) -> list[Tensors]:
        outputs: list[Tensors] = [()] * self.mesh.size
        for group, rows in zip(self.mesh.groups(op.over).tolist(), shard_rows(op, self.mesh).tolist(), strict=True):
            mine = [tuple(inputs[rank]) for rank in group]
            if self.ways is None:
                taken = meaning(self.xp, op.kind, mine, rows, op.params)
            else:
                taken = self._carried(op, mine, rows, group)
            for rank, arrays in zip(group, taken, strict=True):
                outputs[rank] = arrays if op.kind != "all_reduce" else self._shaped(arrays, inputs[rank])
        return outputs

    def _carried(self, op: Op, inputs: list[Tensors], rows: list[int], group: list[int]) -> list[Tensors]:
        """Carry a collective out within one group, round by round: all sends of a round, then all arrivals."""
        collective, kinds = module(op.kind), dtypes(op)
        held: list[Blocks] = [collective.give(self.xp, x, i, rows, op.params) for i, x in enumerate(inputs)]
        for one in rounds(op, self.mesh, self.ways or {}):
            sends = zip(one.src.tolist(), one.dst.tolist(), one.blocks.tolist(), strict=True)
            messages = [(s, d, {b: held[s][b] for b in names if b >= 0}) for s, d, names in sends]
            for source, destination, blocks in messages:
                self.sent[op.id, group[source]] += sum(nbytes(x, kinds) for x in blocks.values())
                for b, arrays in blocks.items():
                    mine = held[destination]
                    mine[b] = collective.combine(self.xp, mine[b], arrays, op.params) if one.combine else arrays
        return [collective.take(self.xp, blocks, i, rows, op.params) for i, blocks in enumerate(held)]

    def _shaped(self, arrays: Tensors, like: Sequence[Any]) -> Tensors:
        return tuple(self.xp.reshape(x, y.shape) for x, y in zip(arrays, like, strict=True))
