"""Delta: the row sums of do * out that every backward tile needs."""

from __future__ import annotations

from typing import Any

from algorithms.ir.expr import ScheduleError
from algorithms.ir.schedule import TensorType, Value
from algorithms.ir.trace import tracing


def delta(do: Value, out: Value) -> Value:
    """Sum do * out over the head's width, in the state dtype.

    Shapes:
        do, out (n, H, Dv) -> (n, H).
    """
    if do.tokens.key != out.tokens.key:
        raise ScheduleError(
            f"S6: delta joins rows of different tokens: {do} holds {do.tokens}, {out} holds {out.tokens}"
        )
    kind = TensorType(out.type.rows, out.type.width[:1], out.type.dtype)
    return tracing().emit("delta", (do, out), [(kind, out.tokens)])[0]


def meaning(xp: Any, do: Any, out: Any) -> tuple[Any]:
    """Row sums, in the dtype of the state."""
    return (xp.astype(xp.sum(xp.astype(do, xp.float64) * xp.astype(out, xp.float64), axis=-1), out.dtype),)
