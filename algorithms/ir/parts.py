"""Parts: a shard dealt in nearly even parts, each of which has its share of every run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from algorithms.ir.alternatives import Join
from algorithms.ir.expr import Const, Coord, Coords, Expr, ScheduleError, as_expr
from algorithms.ir.tokens import Block, Count, Gather, Runs, Tokens, gather

_NUMBER = "part'"  # no mesh axis has such a name


class Part(Tokens):
    """The `number`-th of `parts` nearly even pieces of each run of `inner`."""

    __slots__ = ("inner", "number", "parts")

    def __init__(self, inner: Tokens, number: Expr, parts: int) -> None:
        self.inner, self.number, self.parts = inner, number, parts

    @property
    def key(self) -> tuple[Any, ...]:
        return ("part", self.number.key, self.parts, self.inner.key)

    @property
    def depth(self) -> int:
        return self.inner.depth

    @property
    def count(self) -> Expr:
        if isinstance(self.inner, Block) and self.inner.layout.runs_alike and isinstance(self.number, Const):
            return Const(int(Part(self.inner.layout[0], self.number, self.parts).runs({}).count.sum()))
        return Count(self)

    def runs(self, coords: Coords) -> Runs:
        runs, number = self.inner.runs(coords), self.number.at(coords)[..., None]
        first, last = number * runs.count // self.parts, (number + 1) * runs.count // self.parts
        return Runs(runs.start + runs.step * first, last - first, runs.step)

    def replace(self, new: Mapping[str, Expr]) -> Tokens:
        return Part(self.inner.replace(new), self.number.replace(new), self.parts)

    def __str__(self) -> str:
        return f"{self.number}/{self.parts} of {self.inner}"


def in_parts(tokens: Tokens, parts: int) -> Tokens:
    """Return the same positions in another order, part by part, so that each part lies in one piece."""
    if parts < 1:
        raise ScheduleError(f"S5: rows are dealt in at least 1 part, got {parts}")
    return tokens if parts == 1 else gather(Part(tokens, Coord(_NUMBER, parts), parts), {_NUMBER: parts})


def pieces(tokens: Tokens) -> list[Tokens]:
    """The tokens that these are put together from, by a join, a gather over one axis or dealing in parts."""
    if isinstance(tokens, Join):
        return list(tokens.parts)
    if isinstance(tokens, Gather) and len(tokens.axes) == 1:
        ((axis, size),) = tokens.axes
        return [tokens.inner.replace({axis: as_expr(k)}) for k in range(size)]
    return [tokens]
