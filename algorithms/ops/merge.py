"""Merge: two partial attentions of the same queries over different keys become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from algorithms.ir.alternatives import Only
from algorithms.ir.expr import Coords, ScheduleError
from algorithms.ir.schedule import Op, Partial, Value
from algorithms.ir.trace import tracing
from algorithms.ops import Work


def merge(a: Partial, b: Partial) -> Partial:
    """Merge two partial states, exact up to rounding; associative and commutative, (0, -inf) is neutral.

    Shapes:
        out (n, H, Dv), lse (n, H) twice -> the same once; of b, rows may be `only` on some ranks: on the others a
        stays as it is.
    """
    same_or_some_tokens("merge", a.out, b.out)
    return Partial(*tracing().emit("merge", (*a, *b), [(x.type, x.tokens) for x in a]))


def same_or_some_tokens(kind: str, a: Value, b: Value) -> None:
    """Law S6, where the second operand may have its rows on some ranks only."""
    same_tokens(kind, a, b, some=isinstance(b.tokens, Only) and b.tokens.inner.key == a.tokens.key)


def same_tokens(kind: str, a: Value, b: Value, some: bool = False) -> None:
    """Law S6: operands joined row by row hold the same tokens in the same order."""
    if a.tokens is not b.tokens and a.tokens.key != b.tokens.key and not some:
        raise ScheduleError(f"S6: {kind} joins rows of different tokens: {a} holds {a.tokens}, {b} holds {b.tokens}")
    if a.heads.key != b.heads.key:
        raise ScheduleError(f"S6: {kind} joins different heads: {a} has those from {a.heads} on, {b} from {b.heads}")
    if a.type.width != b.type.width or a.type.dtype != b.type.dtype:
        raise ScheduleError(f"S6: {kind} joins different types: {a} is {a.type}, {b} is {b.type}")


def meaning(xp: Any, out_a: Any, lse_a: Any, out_b: Any, lse_b: Any) -> tuple[Any, Any]:
    """Weigh both outputs by exp(lse - top), top the larger lse; computed in float64, in the dtypes of the first.

        w_i = exp(lse_i - top);  out = (w_a out_a + w_b out_b) / (w_a + w_b);  lse = top + log(w_a + w_b)

    Float64 whatever the dtype of the state, or the error would grow with the number of ranks. A row that saw no
    key, (0, -inf), weighs 0; the form with a sigmoid of lse_b - lse_a gives NaN where both are -inf. Where b has no
    rows, a stays.
    """
    if out_a.shape[0] != out_b.shape[0]:
        return out_a, lse_a
    o1, l1, o2, l2 = (xp.astype(x, xp.float64) for x in (out_a, lse_a, out_b, lse_b))
    top = xp.maximum(l1, l2)
    top = xp.where(top == -xp.inf, 0.0, top)
    w1, w2 = xp.exp(l1 - top), xp.exp(l2 - top)
    total = w1 + w2
    seen = xp.where(total == 0, 1.0, total)
    out = (w1 / seen)[..., None] * o1 + (w2 / seen)[..., None] * o2
    lse = xp.where(total == 0, -xp.inf, top + xp.log(seen))
    return xp.astype(out, out_a.dtype), xp.astype(lse, lse_a.dtype)


def work(op: Op, coords: Coords) -> Work:
    """Read both states and write one, where there is something to merge."""
    return second(op.inputs[2:], coords)


def second(values: Sequence[Value], coords: Coords) -> Work:
    """Bytes of an op that reads its second operand, reads as much of the first and writes as much."""
    return Work(np.zeros((), dtype=np.int64), np.asarray(3 * sum(v.type.nbytes(coords) for v in values)))


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows have met what either side had met."""
    out, lse = (laws.of_held(met, v) for met, v in zip(inputs[2:], op.inputs[2:], strict=True))
    return [laws.both(inputs[0], out), laws.both(inputs[1], lse)]
