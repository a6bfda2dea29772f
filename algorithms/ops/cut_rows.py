"""Cut rows: the pieces that a value's rows were put together from, as views."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from algorithms.ir.expr import ScheduleError
from algorithms.ir.parts import pieces
from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.tokens import Tokens
from algorithms.ir.trace import tracing

FREE = VIEW = ROWS = True


def cut_rows(*xs: Value, parts: int) -> list[Any]:
    """Cut rows where one part ends and the next begins; one value given twice is cut once.

    Args:
        parts: how many there are: values joined, members gathered, or parts that a shard was dealt in (`in_parts`).
    Shapes:
        (n_1 + n_2 + ..., ...) -> (n_1, ...), (n_2, ...), ...: a list of values, or of tuples when several were given.
    """
    known, cut = dict[int, list[Tokens]](), dict[int, tuple[Value, ...]]()
    for x in xs:
        tokens = known.setdefault(id(x.tokens), pieces(x.tokens))
        if len(tokens) != parts:
            raise ScheduleError(f"S5: cut_rows into {parts}: {x} is of {len(tokens)} parts, it holds {x.tokens}")
        if x.id not in cut:
            cut[x.id] = _cut(x, tokens)
    each = list(zip(*[cut[x.id] for x in xs], strict=True))
    return each if len(xs) > 1 else [x for (x,) in each]


def _cut(x: Value, tokens: list[Tokens]) -> tuple[Value, ...]:
    if len(tokens) == 1:
        return (x,)
    kinds = [TensorType(t.count, x.type.width, x.type.dtype) for t in tokens]
    return tracing().emit("cut_rows", (x,), list(zip(kinds, tokens, strict=True)))


def meaning(xp: Any, x: Any, rows: tuple[int, ...]) -> tuple[Any, ...]:
    """Slice the rows."""
    ends = accumulate(rows)
    return tuple(x[end - n : end, ...] for end, n in zip(ends, rows, strict=True))


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """All parts have met the same."""
    return [inputs[0]] * len(op.outputs)
