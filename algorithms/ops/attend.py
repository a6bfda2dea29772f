"""Attend: exact attention of the queries a rank holds to the keys it holds."""

from __future__ import annotations

from typing import Any

from algorithms.ir.expr import Coords, ScheduleError
from algorithms.ir.mask import Mask, sees
from algorithms.ir.pairs import count_pairs
from algorithms.ir.problem import Attention
from algorithms.ir.schedule import Op, Partial, TensorType, Value
from algorithms.ir.score import Score
from algorithms.ir.seen import covered, view
from algorithms.ir.trace import tracing
from algorithms.ops import Work, touched


def attend(q: Value, k: Value, v: Value) -> Partial:
    """Attend q to k, v under the problem's mask; the tokens of q and k say which pairs are visible.

    Shapes:
        q (n, H, D), k (m, Hkv, D), v (m, Hkv, Dv) -> out (n, H, Dv), lse (n, H), both in the state dtype.
    Cost:
        2 (D + Dv) FLOP a visible pair and head.
    """
    me = tracing()
    check_operands(q, k, v)
    problem = me.problem
    out = TensorType(q.type.rows, (q.type.width[0], problem.head_dim_v), problem.state_dtype)
    lse = TensorType(q.type.rows, q.type.width[:1], problem.state_dtype)
    outputs = [(out, q.tokens), (lse, q.tokens)]
    return Partial(*me.emit("attend", (q, k, v), outputs, **mask_params(problem)))


def mask_params(problem: Attention) -> dict[str, Any]:
    """What an attention op must know of the problem: of what changes its scores, only what is there."""
    params: dict[str, Any] = {"mask": problem.mask, "scale": problem.scale}
    changes = {"softcap": problem.softcap, "alibi": problem.heads if problem.alibi else 0}
    return params | {name: x for name, x in changes.items() if x} | {"head_dim_v": problem.head_dim_v}


def check_operands(q: Value, k: Value, v: Value) -> None:
    """Law S7: keys and values are of the same tokens, and their heads divide the query heads."""
    if k.tokens is not v.tokens and k.tokens.key != v.tokens.key:
        raise ScheduleError(f"S7: keys {k} hold {k.tokens}, values {v} hold {v.tokens}: they must be the same")
    if k.type.width[0] != v.type.width[0] or q.type.width[0] % k.type.width[0]:
        heads = (q.type.width[0], k.type.width[0], v.type.width[0])
        raise ScheduleError(f"S7: KV heads must agree and divide the query heads, got q, k, v heads {heads}")
    if q.heads.key != (k.heads * (q.type.width[0] // k.type.width[0])).key or k.heads.key != v.heads.key:
        raise ScheduleError(
            f"S7: queries from head {q.heads} on read KV heads that are theirs: got keys from {k.heads} on, "
            f"values from {v.heads} on"
        )
    if q.type.width[1] != k.type.width[1]:
        raise ScheduleError(f"S7: queries and keys have heads of one width, got q {q.type.width}, k {k.type.width}")


def tile(op: Op, coords: Coords) -> Work:
    """Count visible pairs of the queries and keys of an attention op; FLOP are left at 0.

    Keys that no query sees under a window are not read.
    """
    q, k, mask = op.inputs[0].tokens.runs(coords), op.inputs[1].tokens.runs(coords), op.params["mask"]
    pairs, nbytes = count_pairs(mask, q, k), touched(op, coords)
    if mask.window:
        hidden = k.count.sum(-1) - covered(k, view(mask, q))
        nbytes = nbytes - hidden * sum(v.type.row_nbytes for v in {v.id: v for v in op.inputs[1:3]}.values())
    return Work(pairs.visible * 0, nbytes, pairs.visible, op.inputs[0].type.rows.at(coords), pairs.mixed)


def work(op: Op, coords: Coords) -> Work:
    """Two matrix products a visible pair: scores (D) and output (Dv)."""
    counted = tile(op, coords)
    heads, d = op.inputs[0].type.width
    return counted._replace(flop=2.0 * heads * (d + op.outputs[0].type.width[1]) * counted.pairs)


def meaning(
    xp: Any, q: Any, k: Any, v: Any, rows: Any, cols: Any, mask: Mask, score: Score, head_dim_v: int
) -> tuple[Any, Any]:
    """Define attention densely: softmax over the visible keys of each row; nothing seen gives (0, -inf).

    Args:
        rows, cols: global positions of the queries and keys, shapes (n,) and (m,).
        score: how a product becomes a logit, with the slopes of the heads at hand.
        head_dim_v: width of V; K and V being one tensor, V is its first columns.
    """
    group = q.shape[1] // k.shape[1]
    k, v = xp.repeat(k, group, axis=1), xp.repeat(v[..., :head_dim_v], group, axis=1)
    if not k.shape[0]:
        return xp.zeros((*q.shape[:2], head_dim_v), dtype=q.dtype), xp.full(q.shape[:2], -xp.inf, dtype=q.dtype)
    scores = logits(xp, xp.einsum("qhd,khd->qhk", q, k) * score.scale, rows, cols, score)
    scores = xp.where(sees(mask, rows[:, None], cols[None, :])[:, None, :], scores, -xp.inf)
    top = xp.max(scores, axis=-1, keepdims=True)
    shift = xp.where(top == -xp.inf, 0.0, top)
    weights = xp.exp(scores - shift)
    total = xp.sum(weights, axis=-1, keepdims=True)
    divisor = xp.where(total == 0, 1.0, total)
    lse = xp.where(total == 0, -xp.inf, shift + xp.log(divisor))
    return xp.einsum("qhk,khd->qhd", weights / divisor, v), lse[..., 0]


def logits(xp: Any, scores: Any, rows: Any, cols: Any, score: Score) -> Any:
    """Cap scores (n, H, m) and bias them by distance."""
    if score.softcap:
        scores = score.softcap * xp.tanh(scores / score.softcap)
    if score.slopes is not None:
        distance = xp.astype(xp.abs(rows[:, None, None] - cols[None, None, :]), scores.dtype)
        scores = scores - xp.astype(score.slopes, scores.dtype)[None, :, None] * distance
    return scores


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows have met the keys of the tile."""
    keys = laws.name(op.inputs[1].tokens)
    return [keys, keys]
