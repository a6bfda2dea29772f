"""Transfers: what a communication op moves, rank by rank, when it is carried out in given ways.

The one account of bytes that the schedule, the simulator and the executor are held to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from algorithms.ir.expr import Ints
from algorithms.ir.mesh import Mesh
from algorithms.ir.schedule import Op
from algorithms.ops.collective import block_nbytes
from algorithms.ops.permute import destinations
from algorithms.ways import DEFAULT, Round, find

USUAL: Mapping[str, str] = {}  # nobody chose a way


class Transfer(NamedTuple):
    """One message a rank at most: rank r sends nbytes[r] to dst[r]; -1 sends nothing.

    Transfers of one round that share it start together, on channels of their own; the receiver reduces what
    arrives into its own blocks where `combine` is true.
    """

    round: int
    channel: int
    dst: Ints
    nbytes: Ints
    combine: bool


def way_of(op: Op, ways: Mapping[str, str]) -> str:
    """The way an op is carried out: the one chosen, else the program's, else the default; a permute has only one."""
    if op.kind == "permute":
        return "direct"
    return str(ways.get(op.kind) or op.params.get("way") or DEFAULT[op.kind])


def rounds(op: Op, mesh: Mesh, ways: Mapping[str, str]) -> Iterator[Round]:
    """The rounds of a collective within each of its groups."""
    p = mesh.count(op.over)
    generator = find(op.kind, way_of(op, ways))
    yield from generator(p, op.params["root"]) if op.kind == "broadcast" else generator(p)


def transfers(op: Op, mesh: Mesh, ways: Mapping[str, str] = USUAL) -> Iterator[Transfer]:
    """List the transfers of a communication op over all its groups at once.

    Args:
        ways: way by collective, as `ways.parse` reads them; what is missing goes the program's way, or the default.
    """
    if op.kind == "permute":
        yield _permuted(op, mesh)
        return
    groups, size_of = mesh.groups(op.over), block_nbytes(op, mesh)
    for number, one in enumerate(rounds(op, mesh, ways)):
        shift = (one.dst - one.src) % groups.shape[1]
        channels = [np.arange(len(shift))] if _single(one) else [np.flatnonzero(shift == s) for s in np.unique(shift)]
        for channel, part in enumerate(channels):
            nbytes = size_of(one.blocks[part]).sum(-1)
            yield Transfer(number, channel, *_spread(groups, one.src[part], one.dst[part], nbytes), one.combine)


def _permuted(op: Op, mesh: Mesh) -> Transfer:
    dst, grid = destinations(op, mesh), mesh.grid()
    nbytes = np.where(dst >= 0, sum(mesh.spread(v.type.nbytes(grid)) for v in op.inputs), 0)
    return Transfer(0, 0, np.where(nbytes > 0, dst, -1), nbytes, False)


def _single(one: Round) -> bool:
    """Whether every member sends and receives at most once."""
    return all(len(ends) == 0 or int(np.bincount(ends).max()) == 1 for ends in (one.src, one.dst))


def _spread(groups: Ints, src: Ints, dst: Ints, nbytes: Ints) -> tuple[Ints, Ints]:
    """From sends within groups to one entry a rank."""
    to, size = np.full(groups.size, -1, dtype=np.int64), np.zeros(groups.size, dtype=np.int64)
    to[groups[:, src]] = groups[:, dst]
    size[groups[:, src]] = nbytes
    return to, size


def sent_bytes(op: Op, mesh: Mesh, ways: Mapping[str, str] = USUAL) -> Ints:
    """Bytes each rank sends in an op, shape (P,); sends to oneself count nothing."""
    total = np.zeros(mesh.size, dtype=np.int64)
    if op.stream is not None:
        for transfer in transfers(op, mesh, ways):
            total += transfer.nbytes
    return total
