"""Sink: one more logit a head, learned, which takes weight from the keys and gives no value."""

from __future__ import annotations

from typing import Any

from algorithms.ir.layout import layout
from algorithms.ir.schedule import Op, Partial, TensorType, Value
from algorithms.ir.trace import Rank, tracing


def sink(part: Partial) -> Partial:
    """Merge the state (0, sink) of each head into a state, once; a problem without sinks keeps its state as it is.

    The tracer does this with the state that a prefill or decode program returns; a train program calls it after its
    forward part.

    Shapes:
        out (n, H', Dv), lse (n, H) -> the same; H' is H, or less where the output is of some of the heads only.
    """
    me = tracing()
    if not me.problem.sinks:
        return part
    return Partial(*me.emit("sink", (*part, sinks(me, part.lse)), [(x.type, x.tokens, x.heads) for x in part]))


def sinks(me: Rank, like: Value) -> Value:
    """Load the sinks of the heads of `like`, (1, H), once: a row at the position after the last key."""
    loads = (op for op in me.ops if op.kind == "load" and op.params["name"] == "sinks")
    for op in loads:
        if (x := op.outputs[0]).heads.key == like.heads.key and x.type.width == like.type.width:
            return x
    tokens = layout("contiguous", 1, 1, me.problem.key_len)[0]
    kind = TensorType(tokens.count, like.type.width, me.problem.state_dtype)
    return me.emit("load", (), [(kind, tokens, like.heads)], name="sinks")[0]


def meaning(xp: Any, out: Any, lse: Any, sinks: Any, first: int = 0) -> tuple[Any, Any]:
    """Merge a state whose output is 0 and whose lse is the sink, in float64.

    Args:
        first: which head of lse is the first of out.
    """
    old, more = xp.astype(lse, xp.float64), xp.astype(sinks, xp.float64)
    new = xp.logaddexp(old, xp.broadcast_to(more, old.shape))
    left = xp.exp(old - new)[:, first : first + out.shape[1]]
    return xp.astype(xp.astype(out, xp.float64) * left[..., None], out.dtype), xp.astype(new, lse.dtype)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows have met one key more, the one after the last."""
    one_more = laws.name(op.inputs[2].tokens)
    return [laws.both(x, one_more) for x in inputs[:2]]
