"""Sum heads: the gradients of a head's copies become that of the head."""

from __future__ import annotations

from typing import Any

from algorithms.ir.expr import ScheduleError
from algorithms.ir.schedule import TensorType, Value
from algorithms.ir.trace import tracing
from algorithms.ops.collective import distinct


def sum_heads(*xs: Value, times: int) -> tuple[Value, ...]:
    """Sum each `times` neighbouring heads, the transpose of repeat_heads; once is no op at all.

    Shapes:
        (n, times * H, D) -> (n, H, D), for each value given.
    """
    for x in xs:
        if times < 1 or x.type.width[0] % times:
            raise ScheduleError(
                f"S3: sum_heads times={times} must divide the heads of {x}, which has {x.type.width[0]}"
            )
    if times == 1:
        return xs
    summed = {x.id: _sum(x, times) for x in distinct(xs)}
    return tuple(summed[x.id] for x in xs)


def _sum(x: Value, times: int) -> Value:
    heads, *rest = x.type.width
    kind = TensorType(x.type.rows, (heads // times, *rest), x.type.dtype)
    return tracing().emit("sum_heads", (x,), [(kind, x.tokens, x.heads // times)], times=times)[0]


def meaning(xp: Any, x: Any, times: int) -> tuple[Any]:
    """Sum copies side by side, in float64 as merges are."""
    n, heads, *rest = x.shape
    copies = xp.reshape(xp.astype(x, xp.float64), (n, heads // times, times, *rest))
    return (xp.astype(xp.sum(copies, axis=2), x.dtype),)
