"""Communication over point-to-point messages: permutes, and collectives carried out round by round in a way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI

from algorithms.ir import Op
from algorithms.ops import module
from algorithms.ways import Round
from executor.arrays import Array
from executor.blocks import ShapesOf, block_shapes, dtypes, pack, unpack
from executor.lower import Communication
from executor.native import Place

TAGS = 32_767  # every MPI takes tags up to here
Blocks = dict[int, tuple[Array, ...]]


def permute(op: Op, place: Place, source: int, destination: int, shapes: Sequence[tuple[int, ...]]) -> Communication:
    """Return how one rank sends its values to one member and receives from another.

    Args:
        shapes: of the values that come.
    """
    if source == place.member:
        return Communication(lambda *arrays: arrays, lambda arrays: arrays)
    kinds = [np.dtype(v.type.dtype) for v in op.outputs]
    buffers = list(zip(shapes, kinds, strict=True))
    comm, sent, byte, tag, number = place.comm, place.sent, MPI.BYTE, op.id % TAGS, op.id
    receive, send, finish, contiguous = comm.Irecv, comm.Isend, MPI.Request.Waitall, np.ascontiguousarray

    def post(*arrays: Array) -> Any:
        came = [np.empty(shape, kind) for shape, kind in buffers]
        requests = [receive([x, byte], source, tag) for x in came if x.size]  # of no rows, nothing is sent
        leaving = [contiguous(x) for x in arrays if x.size]
        for x in leaving:
            requests.append(send([x, byte], destination, tag))
            sent[number] += x.nbytes
        return requests, came, leaving

    def wait(posted: Any) -> Any:
        requests, came, _ = posted
        finish(requests)
        return came

    return Communication(post, wait)


class Move(NamedTuple):
    """One message of a round: the other member, the blocks it carries."""

    member: int
    names: list[int]


class Turn(NamedTuple):
    """What one member does in one round."""

    sends: list[Move]
    receives: list[Move]
    combine: bool


def turns(rounds: Iterable[Round], member: int) -> list[Turn]:
    """What one member does in each round in which it does anything."""
    mine = []
    for one in rounds:
        moves = list(zip(one.src.tolist(), one.dst.tolist(), one.blocks.tolist(), strict=True))
        sends = [Move(d, [b for b in names if b >= 0]) for s, d, names in moves if s == member]
        receives = [Move(s, [b for b in names if b >= 0]) for s, d, names in moves if d == member]
        if sends or receives:
            mine.append(Turn(sends, receives, one.combine))
    return mine


def carried(op: Op, place: Place, rounds: Iterable[Round]) -> Communication:
    """Return how one rank takes part in a collective, one round after the other.

    The first round starts when the op is posted, the others when it is waited for: nobody else drives them.
    """
    carrier = Carrier(op, place, turns(rounds, place.member))
    return Communication(carrier.post, carrier.wait)


class Carrier:
    """One rank's part in one collective."""

    def __init__(self, op: Op, place: Place, mine: list[Turn]) -> None:
        """Work out all that does not depend on the data."""
        self.op, self.place, self.turns = op, place, mine
        self.collective, self.rows, self.kinds = module(op.kind), place.rows(op), dtypes(op)
        self.shapes: ShapesOf = block_shapes(op, place.mesh, place.group)
        self.tag = op.id % TAGS
        self.combine = place.combine(op) if any(turn.combine for turn in mine) else None

    def post(self, *arrays: Array) -> Any:
        """Name the blocks that are there, and start the first round."""
        blocks: Blocks = self.collective.give(np, arrays, self.place.member, self.rows, self.op.params)
        like = [x.shape for x in arrays]
        return blocks, like, self._start(self.turns[0], blocks) if self.turns else None

    def wait(self, posted: Any) -> tuple[Array, ...]:
        """End the first round, do the others, and take what the op promises."""
        blocks, like, started = posted
        for number, turn in enumerate(self.turns):
            self._finish(turn, blocks, *(self._start(turn, blocks) if number else started))
        taken: tuple[Array, ...] = self.collective.take(np, blocks, self.place.member, self.rows, self.op.params)
        if self.op.kind == "all_reduce":
            return tuple(x.reshape(shape) for x, shape in zip(taken, like, strict=True))
        return taken

    def _start(self, turn: Turn, blocks: Blocks) -> tuple[list[MPI.Request], list[Array], list[Array]]:
        comm = self.place.comm
        came = [np.empty(self._nbytes(move.names), np.uint8) for move in turn.receives]
        requests = [
            comm.Irecv([x, MPI.BYTE], move.member, self.tag) for x, move in zip(came, turn.receives, strict=True)
        ]
        gone = [pack([x for b in move.names for x in blocks[b]]) for move in turn.sends]
        requests += [comm.Isend([x, MPI.BYTE], move.member, self.tag) for x, move in zip(gone, turn.sends, strict=True)]
        self.place.sent[self.op.id] += sum(x.nbytes for x in gone)
        return requests, came, gone

    def _finish(
        self, turn: Turn, blocks: Blocks, requests: list[MPI.Request], came: list[Array], gone: list[Array]
    ) -> None:
        MPI.Request.Waitall(requests)
        for move, message in zip(turn.receives, came, strict=True):
            shapes = [shape for b in move.names for shape in self.shapes(b)]
            arrays = unpack(message, shapes, self.kinds * len(move.names))
            for k, b in enumerate(move.names):
                block = arrays[k * len(self.kinds) : (k + 1) * len(self.kinds)]
                blocks[b] = self.combine(blocks[b], block) if self.combine and turn.combine else block

    def _nbytes(self, names: list[int]) -> int:
        return sum(
            int(np.prod(shape)) * kind.itemsize
            for b in names
            for shape, kind in zip(self.shapes(b), self.kinds, strict=True)
        )
