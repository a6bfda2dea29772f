"""Join: the rows of several values, one value's after the other's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from algorithms.ir.alternatives import exclusive, joined
from algorithms.ir.expr import Coords, ScheduleError, total
from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.tokens import Tokens
from algorithms.ir.trace import tracing
from algorithms.ops import Work
from algorithms.ops.either import either


def join(*parts: Value | Sequence[Value]) -> Any:
    """Join rows; where a rank has rows of one value only, there is nothing to do.

    Args:
        parts: values, or as many tuples of values, whose first ones are joined, and whose second ones, and so on.
    Shapes:
        (n_1, ...), (n_2, ...), ... -> (n_1 + n_2 + ..., ...).
    Cost:
        a view where every rank keeps the rows of one value at most (`only`); else a copy, on the ranks that have rows
        of several.
    """
    done, known = dict[tuple[int, ...], Value](), dict[tuple[int, ...], Tokens]()
    columns = list(zip(*[(part,) if isinstance(part, Value) else part for part in parts], strict=True))
    for xs in columns:
        if (held := tuple(id(x.tokens) for x in xs)) not in known:
            known[held] = joined([x.tokens for x in xs], tracing().mesh.grid())
        if (ids := tuple(x.id for x in xs)) not in done:
            done[ids] = _join(xs, known[held])
    every = tuple(done[tuple(x.id for x in xs)] for xs in columns)
    return every[0] if isinstance(parts[0], Value) else every


def _join(xs: tuple[Value, ...], tokens: Tokens) -> Value:
    for x in xs[1:]:
        if (x.type.width, x.type.dtype, x.heads.key) != (xs[0].type.width, xs[0].type.dtype, xs[0].heads.key):
            raise ScheduleError(
                f"S6: join puts rows of one type and the same heads after each other: {xs[0]} is {xs[0].type} from "
                f"head {xs[0].heads} on, {x} is {x.type} from {x.heads} on"
            )
    if len(xs) == 1:
        return xs[0]
    if exclusive([x.tokens for x in xs], tracing().mesh.grid()):
        return either(xs, tokens)
    kind = TensorType(total(*[x.type.rows for x in xs]), xs[0].type.width, xs[0].type.dtype)
    return tracing().emit("join", xs, [(kind, tokens)])[0]


def meaning(xp: Any, *xs: Any) -> tuple[Any]:
    """Concatenate the rows."""
    return (xp.concat(list(xs), axis=0),)


def work(op: Op, coords: Coords) -> Work:
    """A copy where there is something to put together."""
    having = sum((x.type.rows.at(coords) > 0).astype(np.int64) for x in op.inputs)
    nbytes = 2 * op.outputs[0].type.nbytes(coords) * (having > 1)
    return Work(nbytes * 0, nbytes)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows that have met the same."""
    return [laws.of_one(inputs, op)]
