"""What all collectives share: members pool named blocks, blocks of one name are combined, each takes its own.

This is the definition a *way* must meet: `meaning` pools everything at once, a way moves the same blocks in
rounds of sends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from algorithms import unknown
from algorithms.ir.expr import Const, Expr, Ints, ScheduleError
from algorithms.ir.mesh import Axes, Mesh
from algorithms.ir.schedule import Op, Value
from algorithms.ir.trace import tracing
from algorithms.ops import module

Arrays = tuple[Any, ...]
Blocks = dict[int, Arrays]


def distinct(xs: Sequence[Value]) -> list[Value]:
    """Drop values named twice (v is k when K and V are one tensor): they travel once."""
    return list({x.id: x for x in xs}.values())


def same_rows(kind: str, xs: Sequence[Value], axes: Axes) -> None:
    """Law S6: what a group joins row by row holds the same rows on every member."""
    alike = members_alike(axes)
    for x in xs:
        if x.tokens.replace(alike).key != x.tokens.key and tracing().mesh.count(axes) > 1:
            raise ScheduleError(f"S6: {kind} over {named(axes)} joins rows of different tokens: {x} holds {x.tokens}")


def same_heads(kind: str, xs: Sequence[Value], axes: Axes) -> None:
    """Law S6: what a group joins head by head holds the same heads on every member."""
    alike = members_alike(axes)
    for x in xs:
        if x.heads.replace(alike).key != x.heads.key:
            where = f"{x} has those from {x.heads} on"
            raise ScheduleError(f"S6: {kind} over {named(axes)} joins different heads: {where}")


def members_alike(axes: Axes) -> dict[str, Expr]:
    """The coordinates of one member in place of each one's own: what they leave unchanged is alike on all."""
    return {a: Const(0) for a in axes}


def check_by(kind: str, by: str, known: Sequence[str]) -> None:
    """Refuse a dimension that a collective does not deal out or put together."""
    if by not in known:
        raise ScheduleError(unknown(f"dimension of {kind}", by, known))


def named(axes: Axes) -> str:
    """Axes as a message names them."""
    return axes[0] if len(axes) == 1 else str(axes)


def said(**params: str) -> dict[str, str]:
    """The parameters that say something other than the usual."""
    return {name: value for name, value in params.items() if value not in ("", "rows")}


def emitted(kind: str, xs: Sequence[Value], outputs: Sequence[Any], over: Any, lane: int, **params: Any) -> Any:
    """Emit a collective on distinct inputs; return one value, or a tuple when several went in."""
    if not xs:
        raise ScheduleError(f"S3: {kind} over {over} moves nothing")
    me = tracing()
    written = me.emit(kind, distinct(xs), outputs, me.mesh.over(over), lane, **params)
    by_id = {x.id: y for x, y in zip(distinct(xs), written, strict=True)}
    return tuple(by_id[x.id] for x in xs) if len(xs) > 1 else written[0]


def shards(op: Op) -> tuple[Value, ...]:
    """The values of which each member has a part of its own: what goes in, or what comes out."""
    own = getattr(module(op.kind), "shards", None)
    return own(op) if own else op.inputs


def shard_rows(op: Op, mesh: Mesh) -> Ints:
    """Row counts of the members' shards, shape (groups, members)."""
    return mesh.by_group(shards(op)[0].type.rows.at(mesh.grid()), op.over)


def shard_nbytes(op: Op, mesh: Mesh) -> Ints:
    """Bytes of the members' shards of all tensors together, shape (groups, members)."""
    grid = mesh.grid()
    return sum((mesh.by_group(v.type.nbytes(grid), op.over) for v in shards(op)), np.zeros((), dtype=np.int64))


def block_nbytes(op: Op, mesh: Mesh) -> Callable[[Ints], Ints]:
    """Tell bytes of named blocks in every group, shape (groups, *blocks.shape); name -1 is no block."""
    m = module(op.kind)
    sizes: Ints = m.sizes(op, mesh)

    def nbytes(blocks: Ints) -> Ints:
        return sizes[:, m.owner(blocks, sizes.shape[1], op.params)] * (blocks >= 0)

    return nbytes


def meaning(xp: Any, kind: str, inputs: Sequence[Arrays], rows: Sequence[int], params: Any) -> list[Arrays]:
    """Define a collective on the inputs of all members of one group: pool, combine in member order, take."""
    m, pool = module(kind), Blocks()
    for member, arrays in enumerate(inputs):
        for name, block in m.give(xp, arrays, member, rows, params).items():
            pool[name] = m.combine(xp, pool[name], block, params) if name in pool else block
    return [m.take(xp, pool, member, rows, params) for member in range(len(inputs))]


def cuts(rows: Sequence[int]) -> list[slice]:
    """Consecutive slices of these lengths."""
    ends = [sum(rows[: k + 1]) for k in range(len(rows))]
    return [slice(end - n, end) for end, n in zip(ends, rows, strict=True)]


def concatenated(xp: Any, parts: Sequence[Arrays], axis: int) -> Arrays:
    """Concatenate tuples of arrays position by position."""
    return tuple(xp.concat(list(same), axis=axis) for same in zip(*parts, strict=True))
