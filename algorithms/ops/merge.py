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
    if a.heads.key != b.heads.key:
        raise ScheduleError(f"S6: {kind} joins different heads: {a} has those from {a.heads} on, {b} from {b.heads}")
    if a.type.width != b.type.width or a.type.dtype != b.type.dtype:
        raise ScheduleError(f"S6: {kind} joins different types: {a} is {a.type}, {b} is {b.type}")


def meaning(xp: Any, out_a: Any, lse_a: Any, out_b: Any, lse_b: Any) -> tuple[Any, Any]:
    """Weigh both outputs by exp(lse - top), top the larger lse; computed in float64, in the dtypes of the first.

        w_i = exp(lse_i - top);  out = (w_a out_a + w_b out_b) / (w_a + w_b);  lse = top + log(w_a + w_b)

    Float64 whatever the dtype of the state, or the error would grow with the number of ranks. A row that saw no
    key, (0, -inf), weighs 0; the form with a sigmoid of lse_b - lse_a gives NaN where both are -inf.
    """
    o1, l1, o2, l2 = (xp.astype(x, xp.float64) for x in (out_a, lse_a, out_b, lse_b))
    top = xp.maximum(l1, l2)
    top = xp.where(top == -xp.inf, 0.0, top)
    w1, w2 = xp.exp(l1 - top), xp.exp(l2 - top)
    total = w1 + w2
    seen = xp.where(total == 0, 1.0, total)
    out = (w1 / seen)[..., None] * o1 + (w2 / seen)[..., None] * o2
    lse = xp.where(total == 0, -xp.inf, top + xp.log(seen))
    return xp.astype(out, out_a.dtype), xp.astype(lse, lse_a.dtype)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows have met what either side had met."""
    return [laws.both(inputs[0], inputs[2]), laws.both(inputs[1], inputs[3])]
