"""Moved: a communication op that moves nothing, though there is a group to move it in, is a mistake and no result."""

from __future__ import annotations

from algorithms.ir.alternatives import Only
from algorithms.ir.mesh import Mesh
from algorithms.ir.parts import Part
from algorithms.ir.schedule import Op, Value, per_rank
from sim.lowered import Lowered


class NothingMovedError(ValueError):
    """A communication op has no bytes on any rank."""


def check_moved(lowered: Lowered) -> None:
    """Refuse a schedule in which a group of several ranks communicates without a byte.

    A permute that leaves every block where it is has bytes, and is fine.

    Raises:
        NothingMovedError: the first such op.
    """
    mesh = lowered.schedule.mesh
    for op, sent in zip(lowered.schedule.ops, lowered.sent, strict=True):
        idle = op.stream is not None and mesh.count(op.over) > 1 and not any(row.values.any() for row in sent)
        if idle and (op.kind != "permute" or not _has_bytes(op, lowered)):
            over = ", ".join(op.over)
            raise NothingMovedError(
                f"{lowered.schedule.name}: op {op.id} {op.kind} over {over} moves nothing on any of its "
                f"{mesh.count(op.over)} ranks: its blocks are empty"
            )


def _has_bytes(op: Op, lowered: Lowered) -> bool:
    mesh = lowered.schedule.mesh
    return any((per_rank(v.type.rows, mesh).any() or _is_meant(v, mesh)) and v.type.row_nbytes for v in op.inputs)


def _is_meant(v: Value, mesh: Mesh) -> bool:
    """Whether some rank would hold rows if there were more tokens: a part of its shard, or a shard that others lack."""
    if isinstance(v.tokens, Only):
        return bool(per_rank(v.tokens.condition, mesh).any())
    return isinstance(v.tokens, Part)
