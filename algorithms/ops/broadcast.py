"""Broadcast: one member of a group gives its value to all."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.ir.expr import Const, Ints, ScheduleError
from algorithms.ir.mesh import Mesh
from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.trace import tracing
from algorithms.ops.collective import Arrays, Blocks, distinct, emitted, shard_nbytes


def broadcast(*xs: Value, over: Any, root: int = 0, lane: int = 0) -> Any:
    """Copy the root's values to every member of its group.

    Shapes:
        (n_root, ...) on the root -> (n_root, ...) on all.
    """
    mesh = tracing().mesh
    axes = mesh.over(over)
    if not 0 <= root < mesh.count(axes):
        raise ScheduleError(f"S3: broadcast over {over} has {mesh.count(axes)} members, got root {root}")
    origin = mesh.unravel(Const(root), axes)
    outputs = [
        (
            TensorType(x.type.rows.replace(origin), x.type.width, x.type.dtype),
            x.tokens.replace(origin),
            x.heads.replace(origin),
        )
        for x in distinct(xs)
    ]
    return emitted("broadcast", xs, outputs, over, lane, root=root)


def sizes(op: Op, mesh: Mesh) -> Ints:
    """Block 0 is the root's value."""
    return shard_nbytes(op, mesh)


def owner(block: Ints, p: int, params: Any) -> Ints:
    """The root, whatever the member."""
    return np.full_like(block, params["root"])


def give(xp: Any, arrays: Arrays, member: int, rows: Any, params: Any) -> Blocks:
    """Only the root starts with something."""
    return {0: arrays} if member == params["root"] else {}


def take(xp: Any, blocks: Blocks, member: int, rows: Any, params: Any) -> Arrays:
    """Keep the root's value."""
    return blocks[0]


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """What the root's value had met."""
    return [x if x is None else laws.of_member(x, op, op.params["root"]) for x in inputs]
