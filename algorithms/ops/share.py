"""Share: the part that a rank's keys have in the whole rows, so that the parts of all ranks add up to the output."""

from __future__ import annotations

from typing import Any

from algorithms.ir.expr import ScheduleError
from algorithms.ir.schedule import Op, Partial, Value
from algorithms.ir.trace import tracing


def share(part: Partial, lses: Value) -> Partial:
    """Scale a partial state to its share of the whole rows, given every rank's lse.

    Args:
        lses: every member's lse side by side, as all_gather(part.lse, ..., by="members") leaves them.
    Shapes:
        out (n, H, Dv), lse (n, H), lses (n, H, p) -> out * exp(lse - whole) (n, H, Dv), whole (n, H).
    References:
        vLLM's decode context parallelism corrects its outputs so before it sums them: pull request 23734.
    """
    if lses.type.width[:-1] != part.lse.type.width or lses.tokens.key != part.lse.tokens.key:
        raise ScheduleError(f"S6: share needs the lses of the same rows and heads: {part.lse} and {lses} differ")
    types = [(x.type, x.tokens) for x in part]
    return Partial(*tracing().emit("share", (*part, lses), types))


def meaning(xp: Any, out: Any, lse: Any, lses: Any) -> tuple[Any, Any]:
    """Work in float64; a rank that saw nothing has a share of 0, and where nobody did the lse stays -inf."""
    own, every = xp.astype(lse, xp.float64), xp.astype(lses, xp.float64)
    top = xp.max(every, axis=-1)
    shift = xp.where(top == -xp.inf, 0.0, top)
    total = xp.sum(xp.exp(every - shift[..., None]), axis=-1)
    seen = xp.where(total == 0, 1.0, total)
    weight = xp.exp(own - shift) / seen
    whole = xp.where(total == 0, -xp.inf, shift + xp.log(seen))
    return xp.astype(xp.astype(out, xp.float64) * weight[..., None], out.dtype), xp.astype(whole, lse.dtype)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """The share has met what the partial state had met; the lse is of all."""
    return [inputs[0], inputs[2]]
