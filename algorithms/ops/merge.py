"""Merge: two partial attentions of the same queries over different keys become one."""

from __future__ import annotations

from typing import Any

from algorithms.ir.expr import ScheduleError
from algorithms.ir.schedule import Op, Partial, Value
from algorithms.ir.trace import tracing


def merge(a: Partial, b: Partial) -> Partial:
    """Merge two partial states, exact up to rounding; associative and commutative, (0, -inf) is neutral.

    Shapes:
        out (n, H, Dv), lse (n, H) twice -> the same once.
    """
    same_tokens("merge", a.out, b.out)
    return Partial(*tracing().emit("merge", (*a, *b), [(x.type, x.tokens) for x in a]))


def same_tokens(kind: str, a: Value, b: Value) -> None:
    """Law S6: operands joined row by row hold the same tokens in the same order."""
    if a.tokens is not b.tokens and a.tokens.key != b.tokens.key:
        raise ScheduleError(f"S6: {kind} joins rows of different tokens: {a} holds {a.tokens}, {b} holds {b.tokens}")
    if a.type.width != b.type.width or a.type.dtype != b.type.dtype:
        raise ScheduleError(f"S6: {kind} joins different types: {a} is {a.type}, {b} is {b.type}")


def meaning(xp: Any, out_a: Any, lse_a: Any, out_b: Any, lse_b: Any) -> tuple[Any, Any]:
    """Weigh both outputs by exp(lse - max), in float64; the result has the dtype of the state."""
    high = [xp.astype(x, xp.float64) for x in (out_a, lse_a, out_b, lse_b)]
    top = xp.maximum(high[1], high[3])
    shift = xp.where(top == -xp.inf, 0.0, top)
    w_a, w_b = xp.exp(high[1] - shift), xp.exp(high[3] - shift)
    total = w_a + w_b
    divisor = xp.where(total == 0, 1.0, total)
    out = (w_a[..., None] * high[0] + w_b[..., None] * high[2]) / divisor[..., None]
    lse = xp.where(total == 0, -xp.inf, shift + xp.log(divisor))
    return xp.astype(out, out_a.dtype), xp.astype(lse, lse_a.dtype)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows have met what either side had met."""
    return [laws.both(inputs[0], inputs[2]), laws.both(inputs[1], inputs[3])]
