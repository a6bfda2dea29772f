"""Seen: trim keys and values to those that some queries can see, so that no others are sent."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.ir.expr import Coords, ScheduleError
from algorithms.ir.pairs import count_pairs
from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.seen import Seen
from algorithms.ir.tokens import Tokens
from algorithms.ir.trace import tracing
from algorithms.ops import Work
from algorithms.ops.collective import distinct


def seen(*xs: Value, by: Tokens | None) -> tuple[Value, ...]:
    """Keep the rows of keys that queries at `by` see under the problem's mask; by=None keeps all, and is no op.

    Shapes:
        (m, ...) -> (m', ...), m' <= m, for each value given; all of the same tokens.
    """
    if by is None:
        return xs
    me, tokens = tracing(), Seen(xs[0].tokens, by, tracing().problem.mask)
    for x in xs:
        if x.tokens is not xs[0].tokens and x.tokens.key != xs[0].tokens.key:
            raise ScheduleError(f"S6: seen trims rows of the same tokens: {xs[0]} holds {xs[0].tokens}, {x} {x.tokens}")
    kept = [(TensorType(tokens.count, x.type.width, x.type.dtype), tokens, x.heads) for x in distinct(xs)]
    written = dict(zip((x.id for x in distinct(xs)), me.emit("seen", distinct(xs), kept), strict=True))
    return tuple(written[x.id] for x in xs)


def meaning(xp: Any, *xs: Any, keep: Any) -> tuple[Any, ...]:
    """Take the rows to keep, by number."""
    return tuple(xp.take(x, keep, axis=0) for x in xs)


def work(op: Op, coords: Coords) -> Work:
    """A copy of what is kept."""
    nbytes = sum((2 * v.type.nbytes(coords) for v in op.outputs), np.zeros((), dtype=np.int64))
    return Work(nbytes * 0, nbytes)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows have met what they had met; none is dropped that the queries see."""
    tokens, grid = op.outputs[0].tokens, laws.mesh.grid()
    assert isinstance(tokens, Seen)
    queries = tokens.by.runs(grid)
    all_pairs, kept = (count_pairs(tokens.mask, queries, x.runs(grid)).visible for x in (tokens.inner, tokens))
    if (all_pairs != kept).any():
        raise ScheduleError(f"S8: op {op.id} seen drops keys that its queries see: {tokens}")
    return inputs
