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
    check_rows("delta", do, out)
    kind = TensorType(out.type.rows, out.type.width[:1], out.type.dtype)
    return tracing().emit("delta", (do, out), [(kind, out.tokens)])[0]


def check_rows(kind: str, a: Value, b: Value) -> None:
    """Law S6: what is said of rows, such as their do or lse, is of the same tokens and heads."""
    if a.tokens is not b.tokens and a.tokens.key != b.tokens.key:
        raise ScheduleError(f"S6: {kind} joins rows of different tokens: {a} holds {a.tokens}, {b} holds {b.tokens}")
    if (a.heads is not b.heads and a.heads.key != b.heads.key) or a.type.width[0] != b.type.width[0]:
        of_a, of_b = (f"{x} has {x.type.width[0]} from {x.heads} on" for x in (a, b))
        raise ScheduleError(f"S6: {kind} joins different heads: {of_a}, {of_b}")


def meaning(xp: Any, do: Any, out: Any) -> tuple[Any]:
    """Row sums, in the dtype of the state."""
    return (xp.astype(xp.sum(xp.astype(do, xp.float64) * xp.astype(out, xp.float64), axis=-1), out.dtype),)
