"""Specimens: of each sort of op that algorithms have, one at several sizes, bound to arrays as a run binds it.

A sort of glue is its kind and type; a sort of collective also what it reduces or deals out, and among how many ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from algorithms.ir import Attention, Inapplicable, Mesh, Op, Program, Schedule, Value
from algorithms.ir.job import Job
from algorithms.ops import is_free, is_view, touched, variant, work
from algorithms.ops.load import held_heads
from executor.arrays import Array, Positions
from executor.calibration.items import Item, random
from executor.cases import state_of
from executor.interpret import bind, fused_for
from executor.kernels import Kernel
from executor.mpi import Streams
from executor.native import Place, native

ATTENTION = ("attend", "attend_backward")
HEADS, TINY = 8, 4  # of the problems that are traced; rows a rank of those that are looked through


class Source(NamedTuple):
    """Where a sort of op is found: a program on a mesh, in a layout."""

    program: Program
    mesh: Mesh
    layout: str

    def schedule(self, dtype: str, head_dim: int, rows: int) -> Schedule:
        """Its schedule with so many tokens a rank; one query in decode.

        Raises:
            Inapplicable: it cannot serve such a problem on its mesh.
        """
        tokens, phase = rows * self.mesh.size, self.program.phase
        queries = rows if phase == "decode" else tokens
        return self.program(
            Attention(
                heads=HEADS,
                kv_heads=HEADS,
                head_dim=head_dim,
                query_len=queries,
                key_len=tokens,
                dtype=dtype,
                state_dtype=state_of(dtype),
                grad_dtype=state_of(dtype),
                phase=phase,
                layout=self.layout,
            ),
            self.mesh,
        )


Sort = tuple[Any, ...]


def sort_of(op: Op, mesh: Mesh) -> Sort | None:
    """What tells ops apart that are measured apart; None for those that are not, or not here."""
    if op.stream is None:
        unmeasured = op.kind in ATTENTION or is_free(op) or is_view(op)
        return None if unmeasured else (op.kind, op.inputs[-1].type.dtype)
    if op.kind == "permute" or mesh.count(op.over) == 1:
        return None
    return op.kind, variant(op), op.inputs[0].type.dtype, mesh.count(op.over)


def sources(programs: Mapping[str, Mapping[str, Program]], ranks: int, dtype: str) -> dict[Sort, Source]:
    """Where each sort of op is found first, on any mesh of so many ranks."""
    found: dict[Sort, Source] = {}
    for phases in programs.values():
        for program in phases.values():
            for mesh in Job(1, ranks, 1).meshes(program.axes, program.equal):
                source = Source(program, mesh, program.layouts[-1] if program.layouts else "contiguous")
                try:
                    ops = source.schedule(dtype, 8, TINY).ops
                except Inapplicable:
                    continue
                for sort in (sort_of(op, mesh) for op in ops):
                    if sort is not None:
                        found.setdefault(sort, source)
    return found


class Specimens:
    """Makes items of ops, on one rank of a communicator."""

    def __init__(self, kernel: Kernel, streams: Streams) -> None:
        """Bind ops to this rank's part."""
        self.kernel, self.streams, self.rank = kernel, streams, streams.comm.Get_rank()
        self.fused = fused_for(kernel)

    def items(self, found: Mapping[Sort, Source], dtype: str, head_dim: int, rows: Sequence[int]) -> Iterator[Item]:
        """Yield each sort of op with so many tokens a rank; in decode as many queries."""
        for count in rows:
            for source in dict.fromkeys(found.values()):
                wanted = {sort for sort, where in found.items() if where == source}
                try:
                    schedule = source.schedule(dtype, head_dim, count)
                except Inapplicable:  # of so few tokens
                    continue
                for op in schedule.ops:
                    if (sort := sort_of(op, schedule.mesh)) in wanted:
                        wanted.remove(sort)
                        yield self.glue(op, schedule) if op.stream is None else self.collective(op, schedule)

    def arrays(self, op: Op, mesh: Mesh) -> list[Array]:
        """Positive numbers in the shapes of its inputs on this rank."""
        at = mesh.of_rank(self.rank)
        shapes = [((int(v.type.rows.at(at)), *v.type.width), v.type.dtype) for v in op.inputs]
        return [np.abs(random(shape, dtype)) + 0.5 for shape, dtype in shapes]

    def glue(self, op: Op, schedule: Schedule) -> Item:
        """A compute op."""
        mesh, arrays = schedule.mesh, self.arrays(op, schedule.mesh)

        def heads(value: Value) -> Any:
            return held_heads(value, schedule.problem, mesh, self.rank, schedule.problem.heads)

        meant = bind(op, Positions(schedule, self.rank), self.kernel, heads=heads, fused=self.fused)
        nbytes = int(np.max(work(op, mesh.grid()).nbytes))
        row = {"kind": op.kind, "dtype": op.inputs[-1].type.dtype, "nbytes": nbytes}
        return Item("glue", row, lambda: meant(*arrays))

    def collective(self, op: Op, schedule: Schedule) -> Item:
        """A collective of MPI's own."""
        mesh, arrays = schedule.mesh, self.arrays(op, schedule.mesh)
        comm, group, member, _ = self.streams.stand(mesh, op.over, op.lane)
        post, wait = native(op, Place(comm, mesh, group, member, [0] * len(schedule.ops), self.fused.get("merge")))
        kind, how, dtype, ranks = sort_of(op, mesh) or ()
        row = {"kind": kind, "how": how, "dtype": dtype, "ranks": ranks}
        return Item(
            "collectives", {**row, "nbytes": int(np.max(touched(op, mesh.grid())))}, lambda: wait(post(*arrays))
        )


def copies(sizes: Sequence[int]) -> Iterator[Item]:
    """Plain copies, which stand in for what was not measured; they read and write."""
    for size in sizes:
        x = random((size,), np.uint8)
        yield Item("glue", {"kind": "copy", "dtype": "uint8", "nbytes": 2 * size}, x.copy)
