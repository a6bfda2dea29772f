"""Repeat heads: copy KV heads so that there are enough of them to split."""

from __future__ import annotations

from typing import Any

from algorithms.ir.expr import ScheduleError
from algorithms.ir.schedule import TensorType, Value
from algorithms.ir.trace import tracing
from algorithms.ops.collective import distinct


def repeat_heads(*xs: Value, times: int) -> tuple[Value, ...]:
    """Copy each head `times` times, copies side by side; once is no op at all, and one given twice is copied once.

    Shapes:
        (n, H, D) -> (n, times * H, D), for each value given.
    """
    if times < 1:
        raise ScheduleError(f"repeat_heads needs times of at least 1, got {times}")
    if times == 1:
        return xs
    copied = {x.id: _repeat(x, times) for x in distinct(xs)}
    return tuple(copied[x.id] for x in xs)


def _repeat(x: Value, times: int) -> Value:
    heads, *rest = x.type.width
    kind = TensorType(x.type.rows, (heads * times, *rest), x.type.dtype)
    return tracing().emit("repeat_heads", (x,), [(kind, x.tokens, x.heads * times)], times=times)[0]


def meaning(xp: Any, x: Any, times: int) -> tuple[Any]:
    """Repeat along the head dimension."""
    return (xp.repeat(x, times, axis=1),)
