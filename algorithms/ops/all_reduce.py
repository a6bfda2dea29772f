"""All-reduce: every member of a group gets the reduction of all members' values."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.ir.expr import Ints
from algorithms.ir.mesh import Mesh
from algorithms.ir.problem import ITEMSIZE
from algorithms.ir.schedule import Op, Partial, Value
from algorithms.ir.trace import tracing
from algorithms.ops import reduce_scatter
from algorithms.ops.collective import Arrays, Blocks, distinct, emitted, same_heads, same_rows, shard_rows


def all_reduce(*xs: Any, over: Any, op: str, lane: int = 0) -> Any:
    """Reduce values over a group, elementwise; several are reduced as one message.

    Args:
        xs: values, or one Partial for op="merge", which is merged by row and head.
        op: sum, max or merge.
    Shapes:
        (n, ...) -> (n, ...), the same n rows on all members.
    """
    values: Any = xs[0] if len(xs) == 1 and isinstance(xs[0], Partial) else xs
    axes = tracing().mesh.over(over)
    reduce_scatter.reduction(op, values)
    same_rows("all_reduce", values, axes)
    same_heads("all_reduce", values, axes)
    outputs = [(x.type, x.tokens, x.heads) for x in distinct(values)]
    result = emitted("all_reduce", tuple(values), outputs, over, lane, op=op)
    return Partial(*result) if isinstance(values, Partial) else result


combine = reduce_scatter.combine


def sizes(op: Op, mesh: Mesh) -> Ints:
    """Block b is the b-th of p even parts of the elements of each tensor, or of the rows of a state's heads."""
    rows, p = shard_rows(op, mesh), mesh.count(op.over)
    part = np.arange(p + 1)
    nbytes = np.zeros((len(rows), p), dtype=np.int64)
    for x in op.inputs:
        whole = unit(x, op.params)
        ends = rows[:, :1] * (x.type.row_elements // whole) * part // p
        nbytes += np.diff(ends, axis=1) * (whole * ITEMSIZE[x.type.dtype])
    return nbytes


def unit(x: Value, params: Any) -> int:
    """Elements that no cut goes through: of a state one head's row, whose output is merged by its one lse."""
    return x.type.row_elements // x.type.width[0] if params["op"] == "merge" else 1


def owner(block: Ints, p: int, params: Any) -> Ints:
    """Every member's parts have the same sizes."""
    return block


def give(xp: Any, arrays: Arrays, member: int, rows: Any, params: Any) -> Blocks:
    """A member starts with its contribution to every part."""
    whole = 2 if params["op"] == "merge" else None  # dimensions from this one on stay together
    p, flat = len(rows), [xp.reshape(x, (-1, *(x.shape[whole:] if whole else ()))) for x in arrays]
    return {b: tuple(x[b * x.shape[0] // p : (b + 1) * x.shape[0] // p, ...] for x in flat) for b in range(p)}


def take(xp: Any, blocks: Blocks, member: int, rows: Any, params: Any) -> Arrays:
    """Put the parts together again, flat: the executor gives them the input's shape."""
    parts = [blocks[b] for b in range(len(rows))]
    return tuple(xp.concat(list(same)) for same in zip(*parts, strict=True))


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """A sum has met what the members together had met; of a maximum nothing is claimed."""
    return [laws.together(x, op) if op.params["op"] != "max" else None for x in inputs]
