"""All-reduce: every member of a group gets the reduction of all members' values."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.ir.expr import Const, Expr, Ints, ScheduleError
from algorithms.ir.mesh import Mesh
from algorithms.ir.problem import ITEMSIZE
from algorithms.ir.schedule import Op, Value
from algorithms.ir.trace import tracing
from algorithms.ops import reduce_scatter
from algorithms.ops.collective import Arrays, Blocks, distinct, emitted, shard_rows


def all_reduce(*xs: Value, over: Any, op: str, lane: int = 0) -> Any:
    """Reduce values over a group, elementwise; several are reduced as one message.

    Args:
        op: sum or max.
    Shapes:
        (n, ...) -> (n, ...), the same n rows on all members.
    """
    mesh = tracing().mesh
    reduce_scatter.reduction(op, xs)
    alike: dict[str, Expr] = {a: Const(0) for a in mesh.over(over)}
    for x in xs:
        if x.tokens.replace(alike).key != x.tokens.key and mesh.count(mesh.over(over)) > 1:
            raise ScheduleError(f"S6: all_reduce over {over} joins rows of different tokens: {x} holds {x.tokens}")
    return emitted("all_reduce", xs, [(x.type, x.tokens, x.heads) for x in distinct(xs)], over, lane, op=op)


combine = reduce_scatter.combine


def sizes(op: Op, mesh: Mesh) -> Ints:
    """Block b is the b-th of p even parts of the elements of each tensor."""
    rows, p = shard_rows(op, mesh), mesh.count(op.over)
    part = np.arange(p + 1)
    nbytes = np.zeros((len(rows), p), dtype=np.int64)
    for x in op.inputs:
        ends = rows[:, :1] * x.type.row_elements * part // p
        nbytes += np.diff(ends, axis=1) * ITEMSIZE[x.type.dtype]
    return nbytes


def owner(block: Ints, p: int, params: Any) -> Ints:
    """Every member's parts have the same sizes."""
    return block


def give(xp: Any, arrays: Arrays, member: int, rows: Any, params: Any) -> Blocks:
    """A member starts with its contribution to every part."""
    p, flat = len(rows), [xp.reshape(x, (-1,)) for x in arrays]
    return {b: tuple(x[b * x.shape[0] // p : (b + 1) * x.shape[0] // p] for x in flat) for b in range(p)}


def take(xp: Any, blocks: Blocks, member: int, rows: Any, params: Any) -> Arrays:
    """Put the parts together again, flat: the executor gives them the input's shape."""
    parts = [blocks[b] for b in range(len(rows))]
    return tuple(xp.concat(list(same)) for same in zip(*parts, strict=True))


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """A sum has met what the members together had met; of a maximum nothing is claimed."""
    return [laws.together(x, op) if op.params["op"] != "max" else None for x in inputs]
