"""Permute: every rank of a group sends its values to one other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.ir.expr import Const, Coords, Expr, Ints, ScheduleError, as_expr
from algorithms.ir.mesh import Axes, Mesh
from algorithms.ir.schedule import Op, TensorType, Value
from algorithms.ir.tokens import Count, Tokens
from algorithms.ir.trace import tracing
from algorithms.ops.collective import distinct, emitted


def permute(
    *xs: Value,
    over: Any,
    shift: int | None = None,
    to: Expr | int | None = None,
    along: Sequence[int] | None = None,
    buffers: int = 2,
    lane: int = 0,
) -> Any:
    """Send values `shift` places on around the group, or to place `to`; several travel as one message.

    Args:
        over: mesh axis, or a tuple of axes whose row-major order numbers the places.
        along: the places in the order in which `shift` goes round; 0, 1, 2, ... unless said.
        buffers: blocks that a chain of permutes owns: a receive waits until the block it overwrites was read.
        lane: streams of their own for different directions on one axis.
    Returns:
        The values received, of the same widths; a single one when one was given.
    Raises:
        ScheduleError: neither or both of shift and to; `to` or `along` is not a permutation of the group.
    """
    mesh = tracing().mesh
    axes = mesh.over(over)
    if (shift is None) == (to is None):
        raise ScheduleError(f"S4: permute over {over} takes either shift= or to=, got shift={shift}, to={to}")
    if shift is not None and not isinstance(shift, (int, np.integer)):
        raise ScheduleError(f"S4: permute over {over} shifts all ranks alike, got shift={shift}: write to=...")
    if buffers < 1:
        raise ScheduleError(f"S9: a chain of permutes owns at least 1 buffer, got {buffers}")
    if along is not None and (shift is None or sorted(along) != list(range(mesh.count(axes)))):
        raise ScheduleError(f"S4: permute shifts along {mesh.count(axes)} places, each once: got {tuple(along)[:8]}...")
    if shift is not None:
        origin = mesh.behind(axes, int(shift), tuple(along or ()))
    else:
        origin = mesh.unravel(Inverse(checked(as_expr(to), mesh, axes), axes, mesh), axes)
    moved = {key: tokens.replace(origin) for key, tokens in {id(x.tokens): x.tokens for x in xs}.items()}
    outputs = [
        (_received(x, moved[id(x.tokens)], origin), moved[id(x.tokens)], x.heads.replace(origin)) for x in distinct(xs)
    ]
    return emitted("permute", xs, outputs, axes, lane, origin=origin, buffers=buffers)


def _received(x: Value, tokens: Tokens, origin: Mapping[str, Expr]) -> TensorType:
    """The type of a value that came from another rank and now has these tokens."""
    rows = x.type.rows
    if isinstance(rows, Const):
        return x.type
    own = isinstance(rows, Count) and rows.tokens is x.tokens
    return TensorType(tokens.count if own else rows.replace(origin), x.type.width, x.type.dtype)


def checked(to: Expr, mesh: Mesh, over: Axes) -> Expr:
    """Law S4: the destinations of every group are its places, each once."""
    places = mesh.by_group(to.at(mesh.grid()), over)
    if not (np.sort(places, axis=1) == np.arange(places.shape[1])).all():
        wrong = next(row for row in places if sorted(row) != list(range(len(row))))
        raise ScheduleError(
            f"S4: permute to={to} is no permutation of the {len(wrong)} places: {wrong[:8].tolist()}..."
        )
    return to


class Inverse(Expr):
    """The place that sends to this rank's place: the inverse of `to` within each group."""

    __slots__ = ("member", "mesh", "over", "to")

    def __init__(self, to: Expr, over: Axes, mesh: Mesh, member: Expr | None = None) -> None:
        self.to, self.over, self.mesh = to, over, mesh
        self.member = mesh.member(mesh.names) if member is None else member

    @property
    def key(self) -> tuple[Any, ...]:
        return ("inverse", self.over, self.to.key, self.member.key)

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, self.mesh.count(self.over) - 1

    def at(self, coords: Coords) -> Ints:
        groups = self.mesh.groups(self.over)
        inverse = np.empty(self.mesh.size, dtype=np.int64)
        places = self.mesh.by_group(self.to.at(self.mesh.grid()), self.over)
        inverse[groups] = np.argsort(places, axis=1)
        return inverse[self.member.at(coords)]

    def replace(self, new: Any) -> Expr:
        return Inverse(self.to, self.over, self.mesh, self.member.replace(new))

    def __str__(self) -> str:
        return f"inverse({self.to})"


def senders(op: Op, mesh: Mesh) -> Ints:
    """The rank that sends to each rank, shape (P,)."""
    grid = mesh.grid()
    source = {a: op.params["origin"].get(a, mesh.coord(a)).at(grid) for a in mesh.names}
    return mesh.spread(np.ravel_multi_index([np.broadcast_to(source[a], mesh.shape) for a in mesh.names], mesh.shape))


def destinations(op: Op, mesh: Mesh) -> Ints:
    """The rank that each rank sends to, shape (P,); -1: itself."""
    sender, rank = senders(op, mesh), np.arange(mesh.size)
    dst = np.empty(mesh.size, dtype=np.int64)
    dst[sender] = rank
    dst[dst == rank] = -1
    return dst


def met(op: Op, inputs: list[Any], laws: Any) -> list[Any]:
    """What was met travels along."""
    sender = senders(op, laws.mesh)
    return [x if x is None else x[sender] for x in inputs]
