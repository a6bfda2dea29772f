"""All-gather: every member of a group gets the rows, or the heads, of all, in member order."""

from __future__ import annotations

from typing import Any

from algorithms.ir.expr import Ints, ScheduleError, total
from algorithms.ir.mesh import Axes, Mesh
from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.tokens import gather
from algorithms.ir.trace import Output, tracing
from algorithms.ops.collective import (
    Arrays,
    Blocks,
    check_by,
    concatenated,
    distinct,
    emitted,
    members_alike,
    named,
    said,
    same_heads,
    same_rows,
    shard_nbytes,
)

BY = ("rows", "heads", "members")


def all_gather(*xs: Value, over: Any, by: str = "rows", buffers: int | None = None, lane: int = 0) -> Any:
    """Concatenate a group's values on each of its members.

    Args:
        by: rows; heads, of the same rows; or members: the same rows and heads of each, side by side.
        buffers: results that the gathers of this stream own together, each landing where the one so many before it
            was, once that was read; without it a result has a place of its own.
    Shapes:
        rows: (n_i, H, ...) on member i -> (sum of n_i, H, ...), for each value given.
        heads: (n, h, ...) -> (n, p*h, ...). members: (n, H, ...) -> (n, H, ..., p).
    Raises:
        ScheduleError: by heads or members of different rows; heads that are not one part after the other; no buffer.
    """
    axes = tracing().mesh.over(over)
    check_by("all_gather", by, BY)
    if by != "heads":
        same_heads("all_gather", xs, axes)
    if buffers is not None and buffers < 1:
        raise ScheduleError(f"S9: the gathers of a stream own at least 1 buffer, got {buffers}")
    params = said(by=by) | ({} if buffers is None else {"buffers": buffers})
    if by == "rows":
        return emitted("all_gather", xs, _rows(xs, axes), over, lane, **params)
    same_rows("all_gather", xs, axes)
    of_one = _heads if by == "heads" else _members
    return emitted("all_gather", xs, [of_one(x, axes) for x in distinct(xs)], over, lane, **params)


def _rows(xs: tuple[Value, ...], axes: Axes) -> list[Output]:
    sizes = {a: tracing().mesh.axes[a] for a in axes}
    tokens = {id(x.tokens): gather(x.tokens, sizes) for x in xs}
    return [
        (TensorType(tokens[id(x.tokens)].count, x.type.width, x.type.dtype), tokens[id(x.tokens)], x.heads)
        for x in distinct(xs)
    ]


def _heads(x: Value, axes: Axes) -> Output:
    mesh, (heads, *rest) = tracing().mesh, x.type.width
    first = total(x.heads, mesh.member(axes) * -heads)
    if first.replace(members_alike(axes)).key != first.key:
        raise ScheduleError(
            f"S6: all_gather over {named(axes)} puts heads together that do not follow each other: "
            f"{x} has those from {x.heads} on"
        )
    return TensorType(x.type.rows, (heads * mesh.count(axes), *rest), x.type.dtype), x.tokens, first


def _members(x: Value, axes: Axes) -> Output:
    return TensorType(x.type.rows, (*x.type.width, tracing().mesh.count(axes)), x.type.dtype), x.tokens, x.heads


def sizes(op: Op, mesh: Mesh) -> Ints:
    """Block b is member b's input."""
    return shard_nbytes(op, mesh)


def owner(block: Ints, p: int, params: Any) -> Ints:
    """The member whose input the block is."""
    return block


def give(xp: Any, arrays: Arrays, member: int, rows: Any, params: Any) -> Blocks:
    """A member starts with its own block."""
    return {member: arrays}


def take(xp: Any, blocks: Blocks, member: int, rows: Any, params: Any) -> Arrays:
    """Put all blocks together."""
    parts = [blocks[b] for b in range(len(rows))]
    if params.get("by") == "members":
        return tuple(xp.stack(list(same), axis=-1) for same in zip(*parts, strict=True))
    return concatenated(xp, parts, axis=1 if params.get("by") == "heads" else 0)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows or heads of all members: what they have met must be the same; side by side they know of all."""
    return [laws.together(x, op) if op.params.get("by") == "members" else laws.uniform(x, op) for x in inputs]
