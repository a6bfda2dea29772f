"""Backward of attend: gradients of one tile, with scores recomputed from the saved log-sum-exp."""

from __future__ import annotations

from typing import Any, NamedTuple

from algorithms.ir.expr import Coords
from algorithms.ir.mask import Mask, sees
from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.score import Score
from algorithms.ir.trace import tracing
from algorithms.ops import Work
from algorithms.ops.attend import check_operands, logits, mask_params, tile
from algorithms.ops.delta import check_rows


class Gradients(NamedTuple):
    """Gradients of the loss by queries, keys and values; dv is dk where K and V are one tensor."""

    dq: Value
    dk: Value
    dv: Value


def attend_backward(q: Value, k: Value, v: Value, do: Value, lse: Value, delta: Value) -> Gradients:
    """Differentiate one tile, given the whole row's lse and delta = rowsum(do * out).

    Shapes:
        q (n, H, D), k (m, Hkv, D), v (m, Hkv, Dv), do (n, H, Dv), lse and delta (n, H)
        -> dq, dk, dv shaped as q, k, v, in the gradient dtype.
    Cost:
        five matrix products a visible pair and head: 2 (3 D + 2 Dv) FLOP.
    References:
        Dao. "FlashAttention-2." 2023. arXiv:2307.08691, Algorithm 2.
    """
    me = tracing()
    check_operands(q, k, v)
    for x in (do, lse, delta):
        check_rows("attend_backward", q, x)
    outputs = [
        (TensorType(x.type.rows, x.type.width, me.problem.grad_dtype), x.tokens, x.heads) for x in _distinct(q, k, v)
    ]
    params = mask_params(me.problem) | {"shared": k is v}
    written = me.emit("attend_backward", (q, k, v, do, lse, delta), outputs, **params)
    return Gradients(written[0], written[1], written[-1])


def _distinct(q: Value, k: Value, v: Value) -> tuple[Value, ...]:
    return (q, k) if k is v else (q, k, v)


def work(op: Op, coords: Coords) -> Work:
    """Scores and dP, then dV, dQ and dK."""
    counted = tile(op, coords)
    heads, d = op.inputs[0].type.width
    dv = op.inputs[3].type.width[1]
    return counted._replace(flop=2.0 * heads * (3 * d + 2 * dv) * counted.pairs)


def meaning(
    xp: Any,
    q: Any,
    k: Any,
    v: Any,
    do: Any,
    lse: Any,
    delta: Any,
    rows: Any,
    cols: Any,
    mask: Mask,
    score: Score,
    head_dim_v: int,
    shared: bool,
) -> tuple[Any, ...]:
    """Define the gradients densely; a row that saw nothing (lse = -inf) has none."""
    group = q.shape[1] // k.shape[1]
    kk, vv = xp.repeat(k, group, axis=1), xp.repeat(v[..., :head_dim_v], group, axis=1)
    alive = sees(mask, rows[:, None], cols[None, :])[:, None, :] & (lse != -xp.inf)[..., None]
    raw = xp.einsum("qhd,khd->qhk", q, kk) * score.scale
    scores = logits(xp, raw, rows, cols, score)
    p = xp.where(alive, xp.exp(xp.where(alive, scores - xp.where(alive.any(-1), lse, 0.0)[..., None], 0.0)), 0.0)
    ds = p * (xp.einsum("qhd,khd->qhk", do, vv) - delta[..., None]) * score.scale
    if score.softcap:
        far = xp.exp(-2 * xp.abs(raw / score.softcap))
        ds = ds * 4 * far / (1 + far) ** 2  # 1 - tanh^2, which would cancel where the cap is near
    dk, dv = xp.einsum("qhk,qhd->khd", ds, q), xp.einsum("qhk,qhd->khd", p, do)
    dk, dv = (xp.sum(x.reshape(*k.shape[:2], group, x.shape[-1]), axis=2) for x in (dk, dv))
    return joined(xp.einsum("qhk,khd->qhd", ds, kk), dk, dv, shared)


def joined(dq: Any, dk: Any, dv: Any, shared: bool) -> tuple[Any, ...]:
    """The op's outputs: where K and V are one tensor, dV is added to the first columns of dK."""
    if not shared:
        return dq, dk, dv
    dk[..., : dv.shape[-1]] += dv
    return dq, dk


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """dQ has met the keys of the tile, dK and dV its queries."""
    queries, keys = laws.name(op.inputs[0].tokens), laws.name(op.inputs[1].tokens)
    return [keys, queries, queries][: len(op.outputs)]
