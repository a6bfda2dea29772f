"""Weigh: turn a partial state into a numerator and denominator that plain sums can reduce."""

from __future__ import annotations

from typing import Any

from algorithms.ir.schedule import Op, Partial, Value
from algorithms.ir.trace import tracing
from algorithms.ops.merge import same_tokens


def weigh(part: Partial, top: Value) -> tuple[Value, Value]:
    """Scale a partial state by exp(lse - top), top being at least every rank's lse.

    Shapes:
        out (n, H, Dv), lse and top (n, H) -> numerator (n, H, Dv), denominator (n, H).
    References:
        Shyam et al. "Tree Attention." 2024. arXiv:2408.04093, Algorithm 3.
    """
    same_tokens("weigh", part.lse, top)
    numerator, denominator = tracing().emit("weigh", (*part, top), [(x.type, x.tokens) for x in part])
    return numerator, denominator


def meaning(xp: Any, out: Any, lse: Any, top: Any) -> tuple[Any, Any]:
    """Weigh in float64; where nobody saw a key (top = -inf) both are 0."""
    high, shift = xp.astype(lse, xp.float64), xp.astype(top, xp.float64)
    w = xp.exp(high - xp.where(shift == -xp.inf, 0.0, shift))
    return xp.astype(xp.astype(out, xp.float64) * w[..., None], out.dtype), xp.astype(w, lse.dtype)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Both carry what the partial state had met."""
    return [inputs[0], inputs[1]]
