"""Collectives as MPI's own, non-blocking: what the library does inside, it does its own way.

Gathers and exchanges go as bytes, so that any dtype travels and uneven or empty shards are counts like others.
A sum or maximum of whole values is the library's; every other reduction is an exchange of blocks, combined
locally in the order of the members, so that it is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI

from algorithms.ir import Mesh, Op
from algorithms.ops import module
from algorithms.ops.collective import shard_rows
from executor.arrays import Array
from executor.blocks import block_shapes, dtypes, pack, unpack
from executor.lower import Communication

REDUCED_BY_MPI = ("float64", "float32")
NOTHING = np.empty(0, np.uint8)


Merge = Callable[..., tuple[Any, ...]]


class Place(NamedTuple):
    """Where a rank stands in the group that carries an op, and the account of what it sends, by op id.

    Attributes:
        merge: joins two states; None: by the meaning of the op.
    """

    comm: MPI.Comm
    mesh: Mesh
    group: int
    member: int
    sent: list[int]
    merge: Merge | None = None

    @property
    def size(self) -> int:
        """Members of the group."""
        return self.comm.Get_size()

    def rows(self, op: Op) -> list[int]:
        """Row counts of the members' shards."""
        rows: list[int] = shard_rows(op, self.mesh)[self.group].tolist()
        return rows

    def combine(self, op: Op) -> Callable[[tuple[Array, ...], tuple[Array, ...]], tuple[Array, ...]]:
        """How blocks of one name are joined."""
        by, merge = module(op.kind).combine, self.merge
        if merge is not None and op.params["op"] == "merge":
            return lambda a, b: merge(*a, *b)
        return lambda a, b: by(np, a, b, op.params)


KEPT = Communication(lambda *arrays: arrays, lambda arrays: arrays)  # a gather over one rank copies nothing


def native(op: Op, place: Place) -> Communication:
    """Return how one rank takes part in a collective by MPI's own."""
    if op.kind == "all_gather" and "by" in op.params:
        return _gather_blocks(op, place)
    if op.kind == "all_gather":
        return _all_gather(op, place) if place.size > 1 else KEPT
    if op.kind == "broadcast":
        return _broadcast(op, place)
    if op.kind == "all_reduce":
        reducible = op.params["op"] != "merge" and all(v.type.dtype in REDUCED_BY_MPI for v in op.inputs)
        return _all_reduce(op, place) if reducible else _all_reduce_gathered(op, place)
    return _exchange(op, place)


def _all_gather(op: Op, place: Place) -> Communication:
    of, kinds = block_shapes(op, place.mesh, place.group), dtypes(op)
    shapes = [of(member) for member in range(place.size)]
    counts = [[_nbytes(s[t], kind) for s in shapes] for t, kind in enumerate(kinds)]
    whole = [(sum(s[t][0] for s in shapes), *shapes[0][t][1:]) for t in range(len(kinds))]
    leaving = sum(c[place.member] for c in counts) * (place.size - 1)

    def post(*arrays: Array) -> Any:
        requests, gathered = [], []
        for x, kind, shape, count in zip(arrays, kinds, whole, counts, strict=True):
            y = np.empty(shape, kind)
            requests.append(place.comm.Iallgatherv([np.ascontiguousarray(x), MPI.BYTE], [y, count, None, MPI.BYTE]))
            gathered.append(y)
        place.sent[op.id] += leaving
        return requests, gathered

    return Communication(post, _finish)


def _gather_blocks(op: Op, place: Place) -> Communication:
    """Gather along another dimension than the rows: each member's block comes whole, and is put in its place."""
    collective, me, rows = module(op.kind), place.member, place.rows(op)

    def post(*arrays: Array) -> Any:
        own = [np.ascontiguousarray(x) for x in arrays]
        came = [np.empty((place.size, *x.shape), x.dtype) for x in own]
        place.sent[op.id] += sum(x.nbytes for x in own) * (place.size - 1)
        requests = [place.comm.Iallgather([x, MPI.BYTE], [y, MPI.BYTE]) for x, y in zip(own, came, strict=True)]
        return requests, came, own

    def wait(posted: Any) -> tuple[Array, ...]:
        requests, came, _ = posted
        MPI.Request.Waitall(requests)
        blocks = {member: tuple(y[member] for y in came) for member in range(place.size)}
        taken: tuple[Array, ...] = collective.take(np, blocks, me, rows, op.params)
        return taken

    return Communication(post, wait)


def _broadcast(op: Op, place: Place) -> Communication:
    root, kinds = op.params["root"], dtypes(op)
    shapes = block_shapes(op, place.mesh, place.group)(0)
    leaving = sum(map(_nbytes, shapes, kinds)) * (place.size - 1) if place.member == root else 0

    def post(*arrays: Array) -> Any:
        if place.member == root:
            values = [np.ascontiguousarray(x) for x in arrays]
        else:
            values = [np.empty(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)]
        place.sent[op.id] += leaving
        return [place.comm.Ibcast([x, MPI.BYTE], root) for x in values], values

    return Communication(post, _finish)


def _all_reduce(op: Op, place: Place) -> Communication:
    by = MPI.MAX if op.params["op"] == "max" else MPI.SUM

    def post(*arrays: Array) -> Any:
        own = [np.ascontiguousarray(x) for x in arrays]
        reduced = [np.empty_like(x) for x in own]
        place.sent[op.id] += sum(x.nbytes for x in own) if place.size > 1 else 0
        return [place.comm.Iallreduce(x, y, by) for x, y in zip(own, reduced, strict=True)], reduced, own

    return Communication(post, _finish)


def _all_reduce_gathered(op: Op, place: Place) -> Communication:
    """For what MPI does not reduce, half types and states: gather all and reduce in the order of the members."""
    combine, kinds = place.combine(op), dtypes(op)

    def post(*arrays: Array) -> Any:
        message = pack(arrays)
        everyone = np.empty((place.size, message.size), np.uint8)
        place.sent[op.id] += message.nbytes * (place.size - 1)
        request = place.comm.Iallgather([message, MPI.BYTE], [everyone, MPI.BYTE])
        return [request], everyone, [x.shape for x in arrays], message

    def wait(posted: Any) -> tuple[Array, ...]:
        requests, everyone, shapes, _ = posted
        MPI.Request.Waitall(requests)
        total = unpack(everyone[0], shapes, kinds)
        for message in everyone[1:]:
            total = combine(total, unpack(message, shapes, kinds))
        return total

    return Communication(post, wait)


def _exchange(op: Op, place: Place) -> Communication:
    """All-to-all and reduce-scatter: each member sends each other one block, and takes or combines what comes.

    Its own stays where it is.
    """
    collective, p, me, rows, kinds = module(op.kind), place.size, place.member, place.rows(op), dtypes(op)
    reduces, of = op.kind == "reduce_scatter", block_shapes(op, place.mesh, place.group)
    names = [me if reduces else source * p + me for source in range(p)]  # of the blocks that come
    shapes = [of(name) for name in names]
    counts = [sum(map(_nbytes, shape, kinds)) if source != me else 0 for source, shape in enumerate(shapes)]
    combine = place.combine(op) if reduces else None

    def post(*arrays: Array) -> Any:
        blocks = collective.give(np, arrays, me, rows, op.params)
        own = blocks[me if reduces else me * p + me]
        parts = [pack(blocks[to if reduces else me * p + to]) if to != me else NOTHING for to in range(p)]
        leaving = np.concatenate(parts) if p > 2 else parts[1 - me] if p == 2 else NOTHING
        arriving = np.empty(sum(counts), np.uint8)
        place.sent[op.id] += leaving.nbytes
        sending, receiving = [leaving, [x.nbytes for x in parts], None, MPI.BYTE], [arriving, counts, None, MPI.BYTE]
        return [place.comm.Ialltoallv(sending, receiving)], arriving, leaving, own

    def wait(posted: Any) -> tuple[Array, ...]:
        requests, arriving, _, own = posted
        MPI.Request.Waitall(requests)
        pool: dict[int, tuple[Array, ...]] = {}
        ends = np.cumsum(counts)
        for source, (name, shape, start, end) in enumerate(zip(names, shapes, ends - counts, ends, strict=True)):
            block = own if source == me else unpack(arriving[start:end], shape, kinds)
            pool[name] = combine(pool[name], block) if combine and name in pool else block
        taken: tuple[Array, ...] = collective.take(np, pool, me, rows, op.params)
        return taken

    return Communication(post, wait)


def _finish(posted: Any) -> Any:
    """Wait for requests whose arrays then hold the result."""
    MPI.Request.Waitall(posted[0])
    return posted[1]


def _nbytes(shape: tuple[int, ...], kind: np.dtype[Any]) -> int:
    return int(np.prod(shape)) * kind.itemsize
