"""Communication ops on a GPU: permutes, and collectives carried out round by round, over any transport.

Packing and reductions run in the communication stream, as in a collective kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from algorithms.ir import Mesh, Op
from algorithms.ops import module
from algorithms.ops.collective import shard_rows
from algorithms.ways import Round
from executor.blocks import Shape, block_shapes, dtypes
from executor.gpu.device import Device
from executor.gpu.glue import Meaning
from executor.gpu.transports import Transport
from executor.lower import Communication
from executor.rounds import TAGS, Move, Turn, turns

Blocks = dict[int, tuple[Any, ...]]


class Stand(NamedTuple):
    """Where a rank stands in the group that carries an op, with what, and the account of what it sends, by op id."""

    device: Device
    transport: Transport
    mesh: Mesh
    group: int
    member: int
    sent: list[int]
    merge: Meaning


def permute(op: Op, stand: Stand, source: int, destination: int, shapes: Sequence[Shape]) -> Communication:
    """Return how one rank sends its values to one member and receives from another; see `executor.rounds`."""
    if source == stand.member:
        return Communication(lambda *arrays: arrays, lambda arrays: arrays)
    device, transport, kinds = stand.device, stand.transport, [np.dtype(v.type.dtype) for v in op.outputs]
    sizes = [int(np.prod(shape)) * kind.itemsize for shape, kind in zip(shapes, kinds, strict=True)]
    receives = [(source, size) for size in sizes if size]  # of no rows, nothing is sent

    def post(*arrays: Any) -> Any:
        if not all(x.flags.c_contiguous for x in arrays):
            device.after(transport.stream, device.mark(device.compute))  # rule 3 of executor.gpu.run
            with device.on(transport.stream):
                arrays = tuple(device.xp.ascontiguousarray(x) for x in arrays)
        leaving = [(destination, as_bytes(device.xp, x)) for x in arrays if x.size]
        stand.sent[op.id] += sum(x.nbytes for _, x in leaving)
        return transport.start(leaving, receives, op.id % TAGS), arrays

    def wait(posted: Any) -> list[Any]:
        came = iter(transport.finish(posted[0]))
        parts = [next(came) if size else device.xp.empty(0, dtype=device.xp.uint8) for size in sizes]
        return [x.view(kind).reshape(shape) for x, kind, shape in zip(parts, kinds, shapes, strict=True)]

    return Communication(post, wait)


def carried(op: Op, stand: Stand, rounds: Iterable[Round]) -> Communication:
    """Return how one rank takes part in a collective, one round after the other."""
    carrier = Carrier(op, stand, turns(rounds, stand.member))
    return Communication(carrier.post, carrier.wait)


class Carrier:
    """One rank's part in one collective; see `executor.rounds.Carrier`, which does the same on a CPU."""

    def __init__(self, op: Op, stand: Stand, mine: list[Turn]) -> None:
        """Work out all that does not depend on the data."""
        self.op, self.stand, self.turns = op, stand, mine
        self.device, self.transport, self.xp = stand.device, stand.transport, stand.device.xp
        self.collective, self.kinds = module(op.kind), dtypes(op)
        self.rows: list[int] = shard_rows(op, stand.mesh)[stand.group].tolist()
        self.shapes = block_shapes(op, stand.mesh, stand.group)
        self.combine = self._combination()

    def _combination(self) -> Callable[..., Any]:
        if self.op.params.get("op") == "merge":
            return lambda a, b: self.stand.merge(*a, *b)
        return lambda a, b: self.collective.combine(self.xp, a, b, self.op.params)

    def post(self, *arrays: Any) -> Any:
        """Name the blocks that are there, and start the first round."""
        self._claim()
        with self.device.on(self.transport.stream):
            blocks: Blocks = self.collective.give(self.xp, arrays, self.stand.member, self.rows, self.op.params)
        return blocks, [x.shape for x in arrays], self._start(self.turns[0], blocks) if self.turns else None, arrays

    def wait(self, posted: Any) -> tuple[Any, ...]:
        """End the first round, do the others, and take what the op promises."""
        blocks, like, started, _ = posted
        self._claim()
        for number, turn in enumerate(self.turns):
            self._finish(turn, blocks, self._start(turn, blocks) if number else started)
        with self.device.on(self.transport.stream):
            taken: tuple[Any, ...] = self.collective.take(self.xp, blocks, self.stand.member, self.rows, self.op.params)
            if self.op.kind == "all_reduce":
                return tuple(x.reshape(shape) for x, shape in zip(taken, like, strict=True))
            return taken

    def _claim(self) -> None:
        """Rule 3 of `executor.gpu.run`: what this stream takes, the compute stream may still be reading."""
        self.device.after(self.transport.stream, self.device.mark(self.device.compute))

    def _start(self, turn: Turn, blocks: Blocks) -> Any:
        with self.device.on(self.transport.stream):
            sends = [(move.member, pack(self.xp, [x for b in move.names for x in blocks[b]])) for move in turn.sends]
        receives = [(move.member, self._nbytes(move.names)) for move in turn.receives]
        self.stand.sent[self.op.id] += sum(x.nbytes for _, x in sends)
        sends, receives = [one for one in sends if one[1].size], [one for one in receives if one[1]]
        return self.transport.start(sends, receives, self.op.id % TAGS), sends

    def _finish(self, turn: Turn, blocks: Blocks, started: Any) -> None:
        came = iter(self.transport.finish(started[0]))
        with self.device.on(self.transport.stream):
            for move in turn.receives:
                self._place(turn, move, blocks, came)

    def _place(self, turn: Turn, move: Move, blocks: Blocks, came: Iterator[Any]) -> None:
        """Put the blocks of one message where they belong."""
        shapes = [shape for b in move.names for shape in self.shapes(b)]
        message = next(came) if self._nbytes(move.names) else self.xp.empty(0, dtype=self.xp.uint8)
        arrays, width = unpack(message, shapes, self.kinds * len(move.names)), len(self.kinds)
        for k, b in enumerate(move.names):
            block = arrays[k * width : (k + 1) * width]
            blocks[b] = self.combine(blocks[b], block) if turn.combine else block

    def _nbytes(self, names: list[int]) -> int:
        shapes = (zip(self.shapes(b), self.kinds, strict=True) for b in names)
        return sum(int(np.prod(shape)) * kind.itemsize for pairs in shapes for shape, kind in pairs)


def as_bytes(xp: Any, x: Any) -> Any:
    """An array as bytes; not copied if it is contiguous."""
    return xp.ascontiguousarray(x).reshape(-1).view(xp.uint8)


def pack(xp: Any, arrays: Sequence[Any]) -> Any:
    """Lay arrays one after the other as bytes; a single contiguous one is not copied."""
    flat = [as_bytes(xp, x) for x in arrays]
    return flat[0] if len(flat) == 1 else xp.concatenate(flat)


def unpack(message: Any, shapes: Sequence[Shape], kinds: Sequence[np.dtype[Any]]) -> tuple[Any, ...]:
    """Read arrays back from bytes, as views where a GPU can read them: where their size divides their place."""
    arrays, start = [], 0
    for shape, kind in zip(shapes, kinds, strict=True):
        end = start + int(np.prod(shape)) * kind.itemsize
        part = message[start:end] if start % kind.itemsize == 0 else message[start:end].copy()
        arrays.append(part.view(kind).reshape(shape))
        start = end
    return tuple(arrays)
