"""Load: a rank's own shard of the problem's arrays, there before the clock starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.ir.expr import Coords, Ints, ScheduleError
from algorithms.ir.mesh import Mesh
from algorithms.ir.problem import Attention
from algorithms.ir.schedule import Op, TensorType, Value, per_rank
from algorithms.ir.tokens import Block, Tokens
from algorithms.ir.trace import Rank
from algorithms.ops import Work

FREE = True


def load(me: Rank, problem: Attention, rows: Tokens, cols: Tokens) -> tuple[Value, Value, Value]:
    """Load this rank's queries at `rows`, keys and values at `cols`.

    Returns:
        q (n, B*H, D), k (m, B*Hkv, D), v (m, B*Hkv, Dv), with B and H divided by dp and tp; v is k when the
        problem's shared_kv says so.
    """
    q = _shard(me, problem, "q", rows, problem.heads, problem.head_dim, problem.dtype)
    k = _shard(me, problem, "k", cols, problem.kv_heads, problem.head_dim, problem.kv_dtype)
    if problem.shared_kv:
        return q, k, k
    return q, k, _shard(me, problem, "v", cols, problem.kv_heads, problem.head_dim_v, problem.kv_dtype)


def load_gradient(me: Rank, problem: Attention, rows: Tokens) -> Value:
    """Load the gradient of the output at `rows`: (n, B*H, Dv)."""
    return _shard(me, problem, "do", rows, problem.heads, problem.head_dim_v, problem.dtype)


def _shard(me: Rank, problem: Attention, name: str, tokens: Tokens, heads: int, dim: int, dtype: str) -> Value:
    width = shard_width(me.mesh, problem, heads, dim)
    _exists(me.mesh, name, tokens)
    return me.emit("load", (), [(TensorType(tokens.count, width, dtype), tokens)], name=name)[0]


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
    name, value = op.params["name"], op.outputs[0]
    if name == "sinks":
        return arrays[name][query_heads(value, problem, mesh, rank)][None]
    rows = value.tokens.runs(mesh.of_rank(rank)).positions()
    if name in ("q", "do"):
        return arrays[name][problem.query_rows(rows)][:, heads_of(problem, mesh, rank, problem.heads)]
    return arrays[name][rows][:, heads_of(problem, mesh, rank, problem.kv_heads)]


def query_heads(value: Value, problem: Attention, mesh: Mesh, rank: int) -> Ints:
    """Numbers of the model's query heads whose rows a rank has in a value of query rows."""
    first = int(value.heads.at(mesh.of_rank(rank)))
    share = heads_of(problem, mesh, rank, problem.heads) % problem.heads
    return share[first : first + value.type.width[0]]
