"""Normalise: turn a reduced numerator and denominator back into an attention state."""

from __future__ import annotations

from typing import Any

from algorithms.ir.schedule import Op, Partial, Value
from algorithms.ir.trace import tracing
from algorithms.ops.merge import same_tokens


def normalise(numerator: Value, denominator: Value, top: Value) -> Partial:
    """Divide, and put the maximum back: out = numerator / denominator, lse = top + log(denominator).

    Shapes:
        numerator (n, H, Dv), denominator and top (n, H) -> out (n, H, Dv), lse (n, H).
    """
    same_tokens("normalise", denominator, top)
    types = [(x.type, x.tokens) for x in (numerator, denominator)]
    return Partial(*tracing().emit("normalise", (numerator, denominator, top), types))


def meaning(xp: Any, numerator: Any, denominator: Any, top: Any) -> tuple[Any, Any]:
    """Divide in float64; a row that saw nothing is (0, -inf)."""
    num, den, shift = (xp.astype(x, xp.float64) for x in (numerator, denominator, top))
    divisor = xp.where(den == 0, 1.0, den)
    lse = xp.where(den == 0, -xp.inf, xp.where(shift == -xp.inf, 0.0, shift) + xp.log(divisor))
    return xp.astype(num / divisor[..., None], numerator.dtype), xp.astype(lse, denominator.dtype)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Both carry what the sums had met."""
    return [inputs[0], inputs[1]]
