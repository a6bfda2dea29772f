"""All-gather: every member of a group gets the rows of all, in member order."""

from __future__ import annotations

from typing import Any

from algorithms.ir.expr import Ints, ScheduleError
from algorithms.ir.mesh import Mesh
from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.tokens import gather
from algorithms.ir.trace import tracing
from algorithms.ops.collective import Arrays, Blocks, concatenated, distinct, emitted, shard_nbytes


def all_gather(*xs: Value, over: Any, buffers: int | None = None, lane: int = 0) -> Any:
    """Concatenate the rows of a group's members on each of them.

    Args:
        buffers: results that the gathers of this stream own together, each landing where the one so many before it
            was, once that was read; without it a result has a place of its own.
    Shapes:
        (n_i, ...) on member i -> (sum of n_i, ...), for each value given.
    """
    mesh = tracing().mesh
    axes = {a: mesh.axes[a] for a in mesh.over(over)}
    tokens = {id(x.tokens): gather(x.tokens, axes) for x in xs}
    outputs = [
        (TensorType(tokens[id(x.tokens)].count, x.type.width, x.type.dtype), tokens[id(x.tokens)], x.heads)
        for x in distinct(xs)
    ]
    if buffers is None:
        return emitted("all_gather", xs, outputs, over, lane)
    if buffers < 1:
        raise ScheduleError(f"S9: the gathers of a stream own at least 1 buffer, got {buffers}")
    return emitted("all_gather", xs, outputs, over, lane, buffers=buffers)


def sizes(op: Op, mesh: Mesh) -> Ints:
    """Block b is member b's input."""
    return shard_nbytes(op, mesh)


def owner(block: Ints, p: int, params: Any) -> Ints:
    """The member whose input the block is."""
    return block


def give(xp: Any, arrays: Arrays, member: int, rows: Any, params: Any) -> Blocks:
    """A member starts with its own block."""
    return {member: arrays}


def take(xp: Any, blocks: Blocks, member: int, rows: Any, params: Any) -> Arrays:
    """Concatenate all blocks."""
    return concatenated(xp, [blocks[b] for b in range(len(rows))], axis=0)


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """Rows of all members: what they have met must be the same."""
    return [laws.uniform(x, op) for x in inputs]
