"""Sink gradient: the gradient of the loss by each head's sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.trace import tracing
from algorithms.ops.all_reduce import all_reduce
from algorithms.ops.all_to_all import split_tokens
from algorithms.ops.merge import same_tokens
from algorithms.ops.sink import sinks


def sink_gradients(
    lse: Value, delta: Value, over: Any, heads: str | None = None, like: Value | None = None
) -> Mapping[str, Value]:
    """Sum -exp(sink - lse) delta over all queries, as result dsinks; nothing where the problem has no sinks.

    Of several sequences each has its own: a model's gradient is their sum.

    Args:
        lse, delta: of whole rows, the sink included. over: the mesh axes that split the sequence, and heads.
        heads: an axis that has split the heads; then rows go back to those of `like` first, with all heads.
    Shapes:
        (n, B*H) twice -> (1, B*H), the same on all ranks of a group.
    """
    me = tracing()
    if not me.problem.sinks:
        return {}
    same_tokens("sink_gradient", lse, delta)
    if heads is not None and like is not None:
        lse, delta = split_tokens(lse, delta, over=heads, like=like)
    logits = sinks(me, lse)
    kind = TensorType(logits.type.rows, lse.type.width, me.problem.grad_dtype)
    (mine,) = me.emit("sink_gradient", (logits, lse, delta), [(kind, logits.tokens)], dtype=kind.dtype)
    return {"dsinks": all_reduce(mine, over=over, op="sum")}


def meaning(xp: Any, sinks: Any, lse: Any, delta: Any, dtype: str) -> tuple[Any]:
    """Weigh delta by the sink's share of each row, in float64."""
    wide = [xp.astype(x, xp.float64) for x in (sinks, lse, delta)]
    share = xp.exp(wide[0] - wide[1])
    return (xp.astype(-xp.sum(share * wide[2], axis=0, keepdims=True), getattr(xp, dtype)),)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """The sums have met the rows that were summed."""
    return [laws.name(op.inputs[1].tokens)]
