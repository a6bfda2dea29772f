"""Take heads: some neighbouring heads of a value, as a view."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.ir.expr import Coords, ScheduleError, total
from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.trace import tracing
from algorithms.ops import Work
from algorithms.ops.collective import distinct

FREE = True


def take_heads(*xs: Value, first: int, count: int) -> Any:
    """Take heads first, first + 1, ... (count of them) of those that a rank holds; one given twice is taken once.

    Shapes:
        (n, H, ...) -> (n, count, ...), for each value given.
    Cost:
        nothing: kernels read heads where they lie. Memory counts it as held, since whoever sends it packs it first.
    """
    for x in xs:
        if first < 0 or count < 1 or first + count > x.type.width[0]:
            raise ScheduleError(f"S3: take_heads first={first}, count={count} of {x}, which has {x.type.width[0]}")
    taken = {x.id: _take(x, first, count) for x in distinct(xs)}
    return tuple(taken[x.id] for x in xs) if len(xs) > 1 else taken[xs[0].id]


def _take(x: Value, first: int, count: int) -> Value:
    kind = TensorType(x.type.rows, (count, *x.type.width[1:]), x.type.dtype)
    heads = total(x.heads, first)
    return tracing().emit("take_heads", (x,), [(kind, x.tokens, heads)], first=first, count=count)[0]


def meaning(xp: Any, x: Any, first: int, count: int) -> tuple[Any]:
    """Slice the head dimension."""
    return (x[:, first : first + count, ...],)


def work(op: Op, coords: Coords) -> Work:
    """Nothing: a view."""
    zero = np.zeros((), dtype=np.int64)
    return Work(zero, zero)
