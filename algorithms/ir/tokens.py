"""Tokens: which global positions each rank holds, as runs, carried by every value of the token dimension."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from algorithms.ir.expr import Const, Coord, Coords, Expr, Ints

if TYPE_CHECKING:
    from algorithms.ir.layout import Layout


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Positions start, start + step, ... (count of them); runs of one rank lie along the last dimension."""

    start: Ints
    count: Ints
    step: int

    def positions(self) -> Ints:
        """The positions of one rank's runs, in order."""
        parts = [s + self.step * np.arange(c) for s, c in zip(self.start.ravel(), self.count.ravel(), strict=True)]
        return np.concatenate([*parts, np.zeros(0, dtype=np.int64)]).astype(np.int64)


class Tokens:
    """What a rank holds of a sequence; the order of rows is the order of the runs."""

    __slots__ = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """Structure as a hashable tuple: equal keys mean the same tokens in the same order on every rank."""
        raise NotImplementedError

    @property
    def depth(self) -> int:
        """How many gathers are nested inside."""
        return 0

    @property
    def count(self) -> Expr:
        """Number of positions held."""
        raise NotImplementedError

    def runs(self, coords: Coords) -> Runs:
        """Evaluate on broadcastable coordinates; runs lie along a new last dimension."""
        raise NotImplementedError

    def replace(self, new: Mapping[str, Expr]) -> Tokens:
        """What a rank holds after taking over from the rank at the replaced coordinates."""
        raise NotImplementedError


class Block(Tokens):
    """Shard number `index` of a layout."""

    __slots__ = ("index", "layout")

    def __init__(self, layout: Layout, index: Expr) -> None:
        self.layout, self.index = layout, index

    @property
    def key(self) -> tuple[Any, ...]:
        return ("block", self.layout, self.index.key)

    @property
    def count(self) -> Expr:
        return Const(self.layout.n // self.layout.p) if self.layout.even else Count(self)

    def runs(self, coords: Coords) -> Runs:
        return self.layout.runs(self.index.at(coords))

    def replace(self, new: Mapping[str, Expr]) -> Tokens:
        return Block(self.layout, self.index.replace(new))

    def __str__(self) -> str:
        return f"{self.layout}[{self.index}]"


class Gather(Tokens):
    """The tokens of all members of a group, in member order.

    `inner` names the member by bound coordinates (axis'depth), so that what later happens to the rank's own
    coordinates does not reach them.
    """

    __slots__ = ("axes", "inner")

    def __init__(self, inner: Tokens, axes: tuple[tuple[str, int], ...]) -> None:
        self.inner, self.axes = inner, axes

    @property
    def key(self) -> tuple[Any, ...]:
        return ("gather", self.axes, self.inner.key)

    @property
    def depth(self) -> int:
        return 1 + self.inner.depth

    @property
    def members(self) -> int:
        """Size of the group."""
        return prod(size for _, size in self.axes)

    @property
    def count(self) -> Expr:
        one = self.inner.count
        return Const(one.value * self.members) if isinstance(one, Const) else Count(self)

    def inside(self, coords: Coords) -> Coords:
        """Coordinates for `inner`: members lie along a new last dimension."""
        return {**{a: x[..., None] for a, x in coords.items()}, **_members(self.axes)}

    def runs(self, coords: Coords) -> Runs:
        runs = self.inner.runs(self.inside(coords))
        start, count = runs.start, runs.count
        shape = np.broadcast_shapes(start.shape, count.shape, (self.members, start.shape[-1]))
        flat = (*shape[:-2], shape[-2] * shape[-1])
        return Runs(np.broadcast_to(start, shape).reshape(flat), np.broadcast_to(count, shape).reshape(flat), runs.step)

    def replace(self, new: Mapping[str, Expr]) -> Tokens:
        return Gather(self.inner.replace(new), self.axes)

    def __str__(self) -> str:
        return f"gather({self.inner} for {' x '.join(a for a, _ in self.axes)})"


@lru_cache(maxsize=64)  # of few groups, over and over
def _members(axes: tuple[tuple[str, int], ...]) -> Coords:
    """The coordinates of all members of a group, in their order."""
    places = np.indices([size for _, size in axes]).reshape(len(axes), -1)
    return {a: x for (a, _), x in zip(axes, places, strict=True)}


def gather(tokens: Tokens, axes: Mapping[str, int]) -> Tokens:
    """Concatenate the tokens of the members of a group over these axes (name -> size, slowest first)."""
    bound = {a: Coord(f"{a}'{tokens.depth + 1}", size) for a, size in axes.items()}
    return Gather(tokens.replace(bound), tuple((c.axis, c.size) for c in bound.values()))


class Count(Expr):
    """The number of tokens a rank holds, where no shorter expression is known."""

    __slots__ = ("tokens",)

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens

    @property
    def key(self) -> tuple[Any, ...]:
        return ("count", self.tokens.key)

    def at(self, coords: Coords) -> Ints:
        if isinstance(self.tokens, Block):
            layout, index = self.tokens.layout, self.tokens.index.at(coords)
            return layout.counts.take(index) if index.size > 1 else layout.count(index)
        return np.asarray(self.tokens.runs(coords).count.sum(-1))

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        return self.tokens.replace(new).count

    def __str__(self) -> str:
        return f"#({self.tokens})"
