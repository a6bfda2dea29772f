"""Join heads: values of neighbouring heads become one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from algorithms.ir.expr import ScheduleError, total
from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.trace import tracing


def join_heads(*xs: Value) -> Value:
    """Concatenate along the heads: each value has the heads that follow those of the one before; one is no op.

    Shapes:
        (n, H1, ...), (n, H2, ...), ... -> (n, H1 + H2 + ..., ...).
    """
    for a, b in pairwise(xs):
        if a.tokens.key != b.tokens.key or a.type.dtype != b.type.dtype or a.type.width[1:] != b.type.width[1:]:
            raise ScheduleError(f"S6: join_heads of {a}: {a.type} of {a.tokens}, and {b}: {b.type} of {b.tokens}")
        if total(a.heads, a.type.width[0]).key != b.heads.key:
            follow = f"{a} has {a.type.width[0]} from {a.heads} on, {b} has those from {b.heads} on"
            raise ScheduleError(f"S6: join_heads joins heads that follow each other: {follow}")
    if len(xs) == 1:
        return xs[0]
    kind = TensorType(xs[0].type.rows, (sum(x.type.width[0] for x in xs), *xs[0].type.width[1:]), xs[0].type.dtype)
    return tracing().emit("join_heads", xs, [(kind, xs[0].tokens)])[0]


def meaning(xp: Any, *xs: Any) -> tuple[Any]:
    """Concatenate along the head dimension."""
    return (xp.concat(list(xs), axis=1),)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """A row has met what all its heads have met."""
    return [laws.alike(inputs, op)]
