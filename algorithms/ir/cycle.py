"""Cycles: the place that comes some steps after a rank's own, along a cycle that visits every place once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from algorithms.ir.expr import Coords, Expr, Ints


class Around(Expr):
    """The place `steps` after a place, along a cycle."""

    __slots__ = ("cycle", "place", "steps")

    def __init__(self, cycle: tuple[int, ...], place: Expr, steps: int) -> None:
        self.cycle, self.place, self.steps = cycle, place, steps

    @property
    def key(self) -> tuple[Any, ...]:
        return ("around", self.cycle, self.steps, self.place.key)

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, len(self.cycle) - 1

    def at(self, coords: Coords) -> Ints:
        cycle, number = _numbered(self.cycle)
        return np.asarray(cycle[(number[self.place.at(coords)] + self.steps) % len(cycle)])

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        return around(self.cycle, self.place.replace(new), self.steps)

    def __str__(self) -> str:
        return f"({self.place} {self.steps:+d} around {'-'.join(map(str, self.cycle[:4]))}-...)"


def around(cycle: tuple[int, ...], place: Expr, steps: int) -> Expr:
    """The place so many steps after a place; all the way round is the place itself."""
    if isinstance(place, Around) and place.cycle == cycle:
        steps += place.steps
        place = place.place
    steps %= len(cycle)
    return Around(cycle, place, steps) if steps else place


@lru_cache(maxsize=1024)
def _numbered(cycle: tuple[int, ...]) -> tuple[Ints, Ints]:
    """A cycle as an array, and the number at which each place stands on it."""
    return np.array(cycle), np.argsort(cycle)
