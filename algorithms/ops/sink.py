"""Sink: one more logit a head, learned, which takes weight from the keys and gives no value."""

from __future__ import annotations

from typing import Any

from algorithms.ir.layout import layout
from algorithms.ir.schedule import Op, Partial, TensorType, Value
from algorithms.ir.trace import Rank, tracing
from algorithms.ops import merge


def sink(part: Partial) -> Partial:
    """Merge the state (0, sink) of each head into a state, once; a problem without sinks keeps its state as it is.

    The tracer does this with the state that a prefill or decode program returns; a train program calls it after its
    forward part.

    Shapes:
        out (n, H, Dv), lse (n, H) -> the same.
    """
    me = tracing()
    if not me.problem.sinks:
        return part
    return Partial(*me.emit("sink", (*part, sinks(me, part.lse)), [(x.type, x.tokens) for x in part]))


def sinks(me: Rank, like: Value) -> Value:
    """Load the sinks of the heads of `like`, (1, H), once: a row at the position after the last key."""
    loads = (op for op in me.ops if op.kind == "load" and op.params["name"] == "sinks")
    for op in loads:
        if (x := op.outputs[0]).heads.key == like.heads.key and x.type.width == like.type.width:
            return x
    tokens = layout("contiguous", 1, 1, me.problem.key_len)[0]
    kind = TensorType(tokens.count, like.type.width, me.problem.state_dtype)
    return me.emit("load", (), [(kind, tokens, like.heads)], name="sinks")[0]


def meaning(xp: Any, out: Any, lse: Any, sinks: Any) -> tuple[Any, Any]:
    """Merge a state whose output is 0 and whose lse is the sink, in float64."""
    return merge.meaning(xp, out, lse, xp.zeros_like(out), xp.broadcast_to(sinks, lse.shape))


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows have met one key more, the one after the last."""
    one_more = laws.name(op.inputs[2].tokens)
    return [laws.both(x, one_more) for x in inputs[:2]]
