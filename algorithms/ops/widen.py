"""Widen: put the rows that were kept back among all, with zeros for the others: the adjoint of seen."""

from __future__ import annotations

from typing import Any

from algorithms.ir.expr import ScheduleError
from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.seen import Seen
from algorithms.ir.trace import tracing
from algorithms.ops.collective import distinct


def widen(*xs: Value, to: Value) -> tuple[Value, ...]:
    """Give gradients of trimmed keys the rows of the keys `to` that were trimmed.

    Shapes:
        (m', ...) -> (m, ...), for each value given, one op each.
    """
    wide = {x.id: _widened(x, to) for x in distinct(xs)}
    return tuple(wide[x.id] for x in xs)


def _widened(x: Value, to: Value) -> Value:
    inner = x.tokens
    while isinstance(inner, Seen) and inner.key != to.tokens.key:
        inner = inner.inner
    if inner.key != to.tokens.key:
        raise ScheduleError(f"S5: widen undoes seen: {x} holds {x.tokens}, which was not trimmed from {to.tokens}")
    kind = TensorType(to.type.rows, x.type.width, x.type.dtype)
    return tracing().emit("widen", (x,), [(kind, to.tokens)])[0]


def meaning(xp: Any, x: Any, source: Any) -> tuple[Any]:
    """Take row source[r] of x for each row r; -1 is a row of zeros."""
    zero = xp.zeros((1, *x.shape[1:]), dtype=x.dtype)
    return (xp.take(xp.concat([x, zero]), source % (x.shape[0] + 1), axis=0),)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """All rows have met the queries that trimmed rows were trimmed for: the others do not see them, and get zeros."""
    tokens = op.inputs[0].tokens
    if isinstance(tokens, Seen) and (inputs[0] is None or (inputs[0] != laws.name(tokens.by)).any()):
        raise ScheduleError(f"S8: op {op.id} widen: rows have met other queries than those they were trimmed for")
    return inputs
