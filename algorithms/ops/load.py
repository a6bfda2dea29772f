"""Load: a rank's own shard of the problem's arrays, there before the clock starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from algorithms.ir.expr import Const, Coords, Expr, Ints, ScheduleError, as_expr, total
from algorithms.ir.mesh import Mesh
from algorithms.ir.problem import Attention
from algorithms.ir.schedule import Op, TensorType, Value, per_rank
from algorithms.ir.tokens import Block, Tokens
from algorithms.ir.trace import Rank
from algorithms.ops import Work

FREE = True
WHOLE = Const(0), 1  # part 0 of 1


def load(
    me: Rank, problem: Attention, rows: Tokens, cols: Tokens, heads: str | Sequence[str] = ()
) -> tuple[Value, Value, Value]:
    """Load this rank's queries at `rows`, keys and values at `cols`.

    Args:
        heads: axes over which the query heads are split: each member has its part, in order.
    Returns:
        q (n, B*H, D), k (m, B*Hkv, D), v (m, B*Hkv, Dv), with B and H divided by dp and tp; v is k when the
        problem's shared_kv says so.
    """
    return load_queries(me, problem, rows, heads), *load_keys(me, problem, cols)


def load_queries(me: Rank, problem: Attention, rows: Tokens, heads: str | Sequence[str] = ()) -> Value:
    """Load this rank's queries at `rows`, (n, B*H, D), or its part of the heads where axes split them."""
    axes = me.mesh.over(heads) if heads else ()
    part = me.mesh.member(axes), me.mesh.count(axes)
    return _shard(me, problem, "q", rows, problem.heads, problem.head_dim, problem.dtype, part)


def load_keys(me: Rank, problem: Attention, cols: Tokens, part: Expr | int = 0, parts: int = 1) -> tuple[Value, Value]:
    """Load this rank's keys and values at `cols`, (m, B*Hkv, D) and (m, B*Hkv, Dv), or one of some parts of the heads.

    Args:
        part: the number of the part, of as many as there are `parts`.
    """
    which = as_expr(part), parts
    k = _shard(me, problem, "k", cols, problem.kv_heads, problem.head_dim, problem.kv_dtype, which)
    if problem.shared_kv:
        return k, k
    return k, _shard(me, problem, "v", cols, problem.kv_heads, problem.head_dim_v, problem.kv_dtype, which)


def load_gradient(me: Rank, problem: Attention, rows: Tokens) -> Value:
    """Load the gradient of the output at `rows`: (n, B*H, Dv)."""
    return _shard(me, problem, "do", rows, problem.heads, problem.head_dim_v, problem.dtype)


def _shard(
    me: Rank,
    problem: Attention,
    name: str,
    tokens: Tokens,
    heads: int,
    dim: int,
    dtype: str,
    part: tuple[Expr, int] = WHOLE,
) -> Value:
    (number, parts), (width, dim) = part, shard_width(me.mesh, problem, heads, dim)
    _exists(me.mesh, name, tokens)
    if width % parts:
        raise ScheduleError(f"S3: load splits the heads of {name} in {parts}, a rank has {width}")
    wrong = np.flatnonzero((per_rank(number, me.mesh) < 0) | (per_rank(number, me.mesh) >= parts))
    if len(wrong):
        raise ScheduleError(f"S11: rank {wrong[0]} loads a part of {name} that is none of 0..{parts - 1}: {number}")
    kind = TensorType(tokens.count, (width // parts, dim), dtype)
    return me.emit("load", (), [(kind, tokens, total(number * (width // parts)))], name=name)[0]


def shard_width(mesh: Mesh, problem: Attention, heads: int, dim: int) -> tuple[int, int]:
    """Heads that a rank holds, batch folded in, and their width."""
    tp, dp = mesh.axes.get("tp", 1), mesh.axes.get("dp", 1)
    return problem.batch // dp * max(1, heads // tp), dim


def _exists(mesh: Mesh, name: str, tokens: Tokens) -> None:
    """Law S11: the shards that the ranks load exist."""
    if not isinstance(tokens, Block):
        return
    p, index = tokens.layout.p, per_rank(tokens.index, mesh)
    wrong = np.flatnonzero((index < 0) | (index >= p))
    if len(wrong):
        raise ScheduleError(
            f"S11: rank {wrong[0]} loads shard {index[wrong[0]]} of {name}: shards are 0..{p - 1} of {tokens}"
        )


def work(op: Op, coords: Coords) -> Work:
    """Nothing: the shard is in memory already."""
    zero = np.zeros((), dtype=np.int64)
    return Work(zero, zero)


def heads_of(problem: Attention, mesh: Mesh, rank: int, heads: int) -> Ints:
    """Folded head numbers (b * heads + h) that a rank holds: batch split by dp, heads by tp.

    Where tp exceeds the KV heads, neighbouring ranks hold copies of one head.
    """
    at = mesh.of_rank(rank)
    tp, dp = mesh.axes.get("tp", 1), mesh.axes.get("dp", 1)
    t, d = (int(at[a]) if a in at else 0 for a in ("tp", "dp"))
    b = d * (problem.batch // dp) + np.arange(problem.batch // dp)
    h = t * heads // tp + np.arange(max(1, heads // tp))
    return (b[:, None] * heads + h).ravel()


def shard(op: Op, arrays: dict[str, Any], problem: Attention, mesh: Mesh, rank: int) -> Any:
    """Cut one rank's shard out of the whole array (N, B*heads, D); of sinks, (heads,), one row for each sequence."""
    name, (value,) = op.params["name"], op.outputs
    if name == "sinks":
        return arrays[name][query_heads(value, problem, mesh, rank)][None]
    rows, heads = value.tokens.runs(mesh.of_rank(rank)).positions(), problem.kv_heads
    if name in ("q", "do"):
        rows, heads = problem.query_rows(rows), problem.heads
    return arrays[name][rows][:, held_heads(value, problem, mesh, rank, heads)]


def held_heads(value: Value, problem: Attention, mesh: Mesh, rank: int, heads: int) -> Ints:
    """Folded head numbers that a rank holds of a value: its own part of its share of the job."""
    first = int(value.heads.at(mesh.of_rank(rank)))
    return heads_of(problem, mesh, rank, heads)[first : first + value.type.width[0]]


def query_heads(value: Value, problem: Attention, mesh: Mesh, rank: int) -> Ints:
    """Numbers of the model's query heads whose rows a rank has in a value of query rows."""
    return held_heads(value, problem, mesh, rank, problem.heads) % problem.heads
