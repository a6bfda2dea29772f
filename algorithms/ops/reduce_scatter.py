"""Reduce-scatter: the members' rows are reduced, and each keeps its own rows, or heads, of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from algorithms import unknown
from algorithms.ir.expr import Ints, ScheduleError, total
from algorithms.ir.mesh import Axes, Mesh
from algorithms.ir.schedule import Op, Partial, TensorType, Value
from algorithms.ir.tokens import gather
from algorithms.ir.trace import Output, tracing
from algorithms.ops import merge
from algorithms.ops.collective import (
    Arrays,
    Blocks,
    check_by,
    cuts,
    distinct,
    emitted,
    named,
    said,
    same_heads,
    same_rows,
    shard_nbytes,
)
from algorithms.ways import DEFAULT, find

REDUCTIONS = ("sum", "max", "merge")
BY = ("rows", "heads")


def reduce_scatter(
    xs: Partial | Sequence[Value],
    over: Any,
    op: str,
    like: Value | None = None,
    by: str = "rows",
    way: str = "",
    lane: int = 0,
) -> Any:
    """Reduce over a group; member i keeps the rows of its own `like`, or the i-th part of the heads.

    Args:
        xs: values whose rows are those of `like` gathered over the group, or, by heads, the same on every member;
            a Partial for op="merge".
        op: sum, max or merge.
        by: rows or heads.
        way: how it is carried out unless the user says; "": as every reduce-scatter is.
    Shapes:
        rows: (sum of n_i, H, ...) -> (n_i, H, ...). heads: (n, H, ...) -> (n, H/p, ...); p divides H.
    """
    axes = tracing().mesh.over(over)
    reduction(op, xs)
    check_by("reduce_scatter", by, BY)
    find("reduce_scatter", way or DEFAULT["reduce_scatter"])  # refuses an unknown way
    same_heads("reduce_scatter", xs, axes)
    outputs = _heads(xs, axes) if by == "heads" else _rows(xs, axes, like)
    result = emitted("reduce_scatter", tuple(xs), outputs, over, lane, op=op, **said(by=by, way=way))
    return Partial(*result) if isinstance(xs, Partial) else result


def _rows(xs: Sequence[Value], axes: Axes, like: Value | None) -> list[Output]:
    if like is None:
        raise ScheduleError(f"S5: reduce_scatter over {named(axes)} by rows needs like=, whose rows are kept")
    rows = gather(like.tokens, {a: tracing().mesh.axes[a] for a in axes})
    for x in xs:
        if x.tokens.key != rows.key:
            raise ScheduleError(f"S5: reduce_scatter over {named(axes)} needs the rows {rows}, {x} holds {x.tokens}")
    return [(TensorType(like.type.rows, x.type.width, x.type.dtype), like.tokens, x.heads) for x in distinct(xs)]


def _heads(xs: Sequence[Value], axes: Axes) -> list[Output]:
    same_rows("reduce_scatter", xs, axes)
    return [part_of_heads("reduce_scatter", x, axes) for x in distinct(xs)]


def part_of_heads(kind: str, x: Value, axes: Axes) -> Output:
    """Each member's part of the heads of a value, rows as they are."""
    mesh, (heads, *rest) = tracing().mesh, x.type.width
    p = mesh.count(axes)
    if heads % p:
        raise ScheduleError(f"S3: {kind} over {named(axes)} splits heads in {p}, {x} has {heads}")
    first = total(x.heads, mesh.member(axes) * (heads // p))
    return TensorType(x.type.rows, (heads // p, *rest), x.type.dtype), x.tokens, first


def merge_visits(visits: Sequence[Partial], over: Any, like: Value, way: str = "", lane: int = 0) -> Partial:
    """Send the states that queries left where they visited home, each to its member, and merge them there.

    Args:
        visits: the states that a rank holds: of its own queries, then of those of the member before it, and so on
            around the group.
        like: the own queries.
        way: how it is carried out unless the user says; direct: as one all-to-all.
    """
    mesh = tracing().mesh
    axes = mesh.over(over)
    if len(visits) != mesh.count(axes):
        raise ScheduleError(f"S5: merge_visits over {named(axes)} has {mesh.count(axes)} visits, got {len(visits)}")
    for step, part in enumerate(visits):
        origin = mesh.behind(axes, step)
        whose = like.tokens.replace(origin).key, like.heads.replace(origin).key
        if any((x.tokens.key, x.heads.key) != whose for x in part):
            raise ScheduleError(
                f"S5: merge_visits over {named(axes)}: visit {step} is of the queries of the member {step} places "
                f"before, {part.out} holds {part.out.tokens}, heads from {part.out.heads} on"
            )
    find("reduce_scatter", way or DEFAULT["reduce_scatter"])
    outputs = [(TensorType(like.type.rows, x.type.width, x.type.dtype), like.tokens, like.heads) for x in visits[0]]
    inputs = [x for part in visits for x in part]
    params = {"op": "merge", "by": "visits", **said(way=way)}
    return Partial(*tracing().emit("reduce_scatter", inputs, outputs, axes, lane, **params))


def reduction(op: str, xs: Any) -> None:
    """Check the reduction's name, and that merge is given a state."""
    if op not in REDUCTIONS:
        raise ScheduleError(unknown("reduction", op, REDUCTIONS))
    if (op == "merge") != isinstance(xs, Partial):
        raise ScheduleError(
            f"S6: op='merge' reduces a Partial and nothing else does, got op={op!r} of {len(xs)} values"
        )


def combine(xp: Any, a: Arrays, b: Arrays, params: Any) -> Arrays:
    """Reduce two blocks of one name."""
    if params["op"] == "merge":
        return merge.meaning(xp, *a, *b)
    return tuple(xp.maximum(x, y) if params["op"] == "max" else x + y for x, y in zip(a, b, strict=True))


def shards(op: Op) -> tuple[Value, ...]:
    """The parts of the result."""
    return op.outputs


def sizes(op: Op, mesh: Mesh) -> Ints:
    """Block b is the part of the result that member b keeps."""
    return shard_nbytes(op, mesh)


def owner(block: Ints, p: int, params: Any) -> Ints:
    """The member that keeps the block."""
    return block


def give(xp: Any, arrays: Arrays, member: int, rows: Any, params: Any) -> Blocks:
    """A member starts with its contribution to every part."""
    p = len(rows)
    if params.get("by") == "visits":
        return {(member - step) % p: arrays[2 * step : 2 * step + 2] for step in range(p)}
    if params.get("by") == "heads":
        return {b: tuple(x[:, b * x.shape[1] // p : (b + 1) * x.shape[1] // p, ...] for x in arrays) for b in range(p)}
    return {b: tuple(x[part, ...] for x in arrays) for b, part in enumerate(cuts(rows))}


def take(xp: Any, blocks: Blocks, member: int, rows: Any, params: Any) -> Arrays:
    """Keep the own part."""
    return blocks[member]


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows have met what the members together had met."""
    if op.params.get("by") != "visits":
        return [laws.together(x, op) for x in inputs]
    return [laws.visits(inputs[k::2], op) for k in (0, 1)]
