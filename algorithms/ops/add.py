"""Add: sums of gradients of the same tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from algorithms.ir.expr import Coords
from algorithms.ir.schedule import Op, Value
from algorithms.ir.trace import tracing
from algorithms.ops import Work
from algorithms.ops.merge import same_or_some_tokens, second


def add(a: Sequence[Value], b: Sequence[Value]) -> tuple[Value, ...]:
    """Add value by value; a pair that appears twice (dv is dk when K and V are one tensor) is added once.

    Shapes:
        any, pairwise equal; of b, rows may be `only` on some ranks: on the others a stays as it is.
    """
    done: dict[tuple[int, int], Value] = {}
    for x, y in zip(a, b, strict=True):
        if (x.id, y.id) not in done:
            same_or_some_tokens("add", x, y)
            done[x.id, y.id] = tracing().emit("add", (x, y), [(x.type, x.tokens)])[0]
    return tuple(done[x.id, y.id] for x, y in zip(a, b, strict=True))


def meaning(xp: Any, a: Any, b: Any) -> tuple[Any]:
    """Sum two arrays; where b has no rows, a stays."""
    return (a if a.shape[0] != b.shape[0] else a + b,)


def work(op: Op, coords: Coords) -> Work:
    """Read both and write one, where there is something to add."""
    return second(op.inputs[1:], coords)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows have met what either side had met."""
    return [laws.both(inputs[0], laws.of_held(inputs[1], op.inputs[1]))]
