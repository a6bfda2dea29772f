"""Either: of several values, the one that a rank has rows of, as a view."""

from __future__ import annotations

from typing import Any

from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.tokens import Tokens
from algorithms.ir.trace import tracing

FREE = VIEW = True


def either(xs: tuple[Value, ...], tokens: Tokens) -> Value:
    """Take the rows of whichever value has any; on no rank have two.

    Shapes:
        (n_1, ...), (n_2, ...), ... of which all but one are 0 -> the one (n, ...).
    """
    kind = TensorType(tokens.count, xs[0].type.width, xs[0].type.dtype)
    return tracing().emit("either", xs, [(kind, tokens)])[0]


def meaning(xp: Any, *xs: Any) -> tuple[Any]:
    """Take the one that is not empty."""
    return (next((x for x in xs if x.shape[0]), xs[0]),)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows have met what they had met."""
    return [laws.of_one(inputs, op)]
