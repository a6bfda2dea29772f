"""Reduce-scatter: the members' rows are reduced, and each keeps its own part of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from algorithms import unknown
from algorithms.ir.expr import Ints, ScheduleError
from algorithms.ir.mesh import Mesh
from algorithms.ir.schedule import Op, Partial, TensorType, Value
from algorithms.ir.tokens import gather
from algorithms.ir.trace import tracing
from algorithms.ops import merge
from algorithms.ops.collective import Arrays, Blocks, cuts, distinct, emitted, shard_nbytes

REDUCTIONS = ("sum", "max", "merge")


def reduce_scatter(xs: Partial | Sequence[Value], over: Any, op: str, like: Value, lane: int = 0) -> Any:
    """Reduce rows over a group; member i keeps the rows of its own `like`.

    Args:
        xs: values whose rows are those of `like` gathered over the group; a Partial for op="merge".
        op: sum, max or merge.
    Shapes:
        (sum of n_i, ...) -> (n_i, ...).
    """
    mesh = tracing().mesh
    reduction(op, xs)
    rows = gather(like.tokens, {a: mesh.axes[a] for a in mesh.over(over)})
    for x in xs:
        if x.tokens.key != rows.key:
            raise ScheduleError(f"S5: reduce_scatter over {over} needs the rows {rows}, {x} holds {x.tokens}")
    outputs = [(TensorType(like.type.rows, x.type.width, x.type.dtype), like.tokens, x.heads) for x in distinct(xs)]
    result = emitted("reduce_scatter", tuple(xs), outputs, over, lane, op=op)
    return Partial(*result) if isinstance(xs, Partial) else result


def reduction(op: str, xs: Any) -> None:
    """Check the reduction's name, and that merge is given a state."""
    if op not in REDUCTIONS:
        raise ScheduleError(unknown("reduction", op, REDUCTIONS))
    if (op == "merge") != isinstance(xs, Partial):
        raise ScheduleError(
            f"S6: op='merge' reduces a Partial and nothing else does, got op={op!r} of {len(xs)} values"
        )


def combine(xp: Any, a: Arrays, b: Arrays, params: Any) -> Arrays:
    """Reduce two blocks of one name."""
    if params["op"] == "merge":
        return merge.meaning(xp, *a, *b)
    return tuple(xp.maximum(x, y) if params["op"] == "max" else x + y for x, y in zip(a, b, strict=True))


def shards(op: Op) -> tuple[Value, ...]:
    """The parts of the result."""
    return op.outputs


def sizes(op: Op, mesh: Mesh) -> Ints:
    """Block b is the part of the result that member b keeps."""
    return shard_nbytes(op, mesh)


def owner(block: Ints, p: int, params: Any) -> Ints:
    """The member that keeps the block."""
    return block


def give(xp: Any, arrays: Arrays, member: int, rows: Any, params: Any) -> Blocks:
    """A member starts with its contribution to every part."""
    return {b: tuple(x[part, ...] for x in arrays) for b, part in enumerate(cuts(rows))}


def take(xp: Any, blocks: Blocks, member: int, rows: Any, params: Any) -> Arrays:
    """Keep the own part."""
    return blocks[member]


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows have met what the members together had met."""
    return [laws.together(x, op) for x in inputs]
