"""Blocks of a collective on real arrays: their shapes, and several of them as one message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from algorithms.ir import Mesh, Op, Value
from algorithms.ops import module
from algorithms.ops.all_reduce import unit
from algorithms.ops.collective import shards
from executor.arrays import Array

Shape = tuple[int, ...]
ShapesOf = Callable[[int], list[Shape]]


def block_shapes(op: Op, mesh: Mesh, group: int) -> ShapesOf:
    """Return a function from a block's name to the shapes of its arrays, one a tensor, in one group."""
    values, p, grid, owner = shards(op), mesh.count(op.over), mesh.grid(), module(op.kind).owner
    rows = [mesh.by_group(v.type.rows.at(grid), op.over)[group].tolist() for v in values]

    def of(block: int) -> list[Shape]:
        if op.kind == "all_reduce":
            return [_piece(v, n[0], block, p, op) for v, n in zip(values, rows, strict=True)]
        member = int(owner(np.asarray(block), p, op.params))
        split = p if op.kind == "all_to_all" else 1
        return [(n[member], v.type.width[0] // split, *v.type.width[1:]) for v, n in zip(values, rows, strict=True)]

    return of


def _piece(v: Value, rows: int, block: int, p: int, op: Op) -> Shape:
    """Shape of an even part of a value that is reduced: elements, or of a state the rows of its heads."""
    whole = unit(v, op.params)
    count = part(rows * (v.type.row_elements // whole), block, p)
    return (count, *v.type.width[1:]) if op.params["op"] == "merge" else (count,)


def part(n: int, index: int, p: int) -> int:
    """Length of one of p nearly even parts of n elements."""
    return (index + 1) * n // p - index * n // p


def dtypes(op: Op) -> list[np.dtype[Any]]:
    """The dtypes of a block's arrays."""
    return [np.dtype(v.type.dtype) for v in shards(op)]


def nbytes(arrays: Sequence[Any], kinds: Sequence[np.dtype[Any]]) -> int:
    """Bytes of the arrays of a block, in whatever library they are."""
    return sum(x.size * kind.itemsize for x, kind in zip(arrays, kinds, strict=True))


def pack(arrays: Sequence[Array]) -> Array:
    """Lay arrays one after the other as bytes; a single contiguous one is not copied."""
    flat = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in arrays]
    return flat[0] if len(flat) == 1 else np.concatenate(flat)


def unpack(buffer: Array, shapes: Sequence[Shape], kinds: Sequence[np.dtype[Any]]) -> tuple[Array, ...]:
    """Read arrays back from bytes, as views."""
    arrays, start = [], 0
    for shape, kind in zip(shapes, kinds, strict=True):
        end = start + int(np.prod(shape)) * kind.itemsize
        arrays.append(buffer[start:end].view(kind).reshape(shape))
        start = end
    return tuple(arrays)
