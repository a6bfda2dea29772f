"""Only: the rows of a value on some ranks, none on the others, as a view."""

from __future__ import annotations

from typing import Any

from algorithms.ir.alternatives import restricted
from algorithms.ir.expr import as_expr
from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.tokens import Tokens
from algorithms.ir.trace import tracing

FREE = VIEW = ROWS = True


def only(*xs: Value, where: Any) -> tuple[Value, ...]:
    """Keep the rows on the ranks where a condition holds; one value given twice is one afterwards.

    Args:
        where: a comparison of coordinates, or a product of several.
    Shapes:
        (n, ...) -> (n, ...) where it holds, (0, ...) elsewhere, for each value given.
    """
    me, condition = tracing(), as_expr(where)
    grid, known, kept = me.mesh.grid(), dict[int, Tokens](), dict[int, Value]()
    for x in xs:
        if id(x.tokens) not in known:
            known[id(x.tokens)] = restricted(x.tokens, condition, grid)
        if x.id not in kept:
            kept[x.id] = _kept(x, known[id(x.tokens)], condition)
    return tuple(kept[x.id] for x in xs)


def _kept(x: Value, tokens: Tokens, condition: Any) -> Value:
    if tokens is x.tokens:
        return x
    kind = TensorType(tokens.count, x.type.width, x.type.dtype)
    return tracing().emit("only", (x,), [(kind, tokens)], where=condition)[0]


def meaning(xp: Any, x: Any, rows: tuple[int], where: Any) -> tuple[Any]:
    """Keep all rows or none."""
    return (x[: rows[0], ...],)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """What is kept has met what it had met."""
    return [laws.of_held(inputs[0], op.outputs[0])]
