"""All-to-all: heads are split over a group while tokens are gathered, or the other way round."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.ir.expr import Ints, ScheduleError, total
from algorithms.ir.mesh import Mesh
from algorithms.ir.problem import ITEMSIZE
from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.tokens import gather
from algorithms.ir.trace import tracing
from algorithms.ops.collective import Arrays, Blocks, concatenated, cuts, distinct, emitted


def split_heads(*xs: Value, over: Any, lane: int = 0) -> Any:
    """Give each member all tokens of its part of the heads.

    Shapes:
        (n_i, H, ...) on member i -> (sum of n_i, H/p, ...); p divides H.
    """
    mesh = tracing().mesh
    axes = {a: mesh.axes[a] for a in mesh.over(over)}
    p, outputs = mesh.count(mesh.over(over)), []
    for x in distinct(xs):
        if x.type.width[0] % p:
            raise ScheduleError(f"S3: all_to_all over {over} splits heads in {p}, {x} has {x.type.width[0]}")
        tokens, heads = gather(x.tokens, axes), x.type.width[0] // p
        first = total(x.heads, mesh.member(mesh.over(over)) * heads)
        outputs.append((TensorType(tokens.count, (heads, *x.type.width[1:]), x.type.dtype), tokens, first))
    return emitted("all_to_all", xs, outputs, over, lane, split="heads")


def split_tokens(*xs: Value, over: Any, like: Value, lane: int = 0) -> Any:
    """Give each member all heads of its own tokens, those of `like`: the inverse of split_heads.

    Shapes:
        (sum of n_i, H/p, ...) -> (n_i, H, ...).
    """
    mesh = tracing().mesh
    p, rows = mesh.count(mesh.over(over)), gather(like.tokens, {a: mesh.axes[a] for a in mesh.over(over)})
    for x in xs:
        if x.tokens.key != rows.key:
            raise ScheduleError(f"S5: all_to_all over {over} needs the rows {rows}, {x} holds {x.tokens}")
    axes = mesh.over(over)
    outputs = [
        (
            TensorType(like.type.rows, (x.type.width[0] * p, *x.type.width[1:]), x.type.dtype),
            like.tokens,
            total(x.heads, mesh.member(axes) * -x.type.width[0]),
        )
        for x in distinct(xs)
    ]
    return emitted("all_to_all", xs, outputs, over, lane, split="tokens")


def shards(op: Op) -> tuple[Value, ...]:
    """The side on which tokens are dealt to the members."""
    return op.inputs if op.params["split"] == "heads" else op.outputs


def sizes(op: Op, mesh: Mesh) -> Ints:
    """Block s*p + d goes from s to d: part of s's rows' heads, or d's rows of s's heads."""
    p, nbytes = mesh.count(op.over), np.zeros((), dtype=np.int64)
    for x in shards(op):
        row = x.type.row_elements // p * ITEMSIZE[x.type.dtype]
        nbytes = nbytes + mesh.by_group(x.type.rows.at(mesh.grid()), op.over) * row
    return nbytes


def owner(block: Ints, p: int, params: Any) -> Ints:
    """The member whose row count sizes the block."""
    return block // p if params["split"] == "heads" else block % p


def give(xp: Any, arrays: Arrays, member: int, rows: Any, params: Any) -> Blocks:
    """A member starts with one block for each other."""
    p = len(rows)
    if params["split"] == "tokens":
        return {member * p + d: tuple(x[part, ...] for x in arrays) for d, part in enumerate(cuts(rows))}
    return {
        member * p + d: tuple(x[:, d * x.shape[1] // p : (d + 1) * x.shape[1] // p, ...] for x in arrays)
        for d in range(p)
    }


def take(xp: Any, blocks: Blocks, member: int, rows: Any, params: Any) -> Arrays:
    """Concatenate what came from each member: tokens, or heads."""
    p = len(rows)
    axis = 0 if params["split"] == "heads" else 1
    return concatenated(xp, [blocks[s * p + member] for s in range(p)], axis=axis)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows of all members: what they have met must be the same."""
    return [laws.uniform(x, op) for x in inputs]
