"""Walks: orders in which to pass through all GPUs of an island so that no link carries more than it must."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from sim.network import Network
from sim.state import Floats, Longs

TRIED = 4000  # steps of a search; a mesh of eight is searched through in about as many
SEARCHED = 16  # GPUs of an island up to which walks are searched for; in larger ones they follow the ranks


@dataclass
class Walker:
    """Finds walks one after the other, each beside those before.

    Attributes:
        route: [from][to] the links between two places of the island. load: [links] walks that each carries.
    """

    route: list[list[tuple[int, ...]]]
    capacity: Floats
    load: Longs
    left: int = field(default=0, repr=False)

    @classmethod
    def of(cls, network: Network, ranks: Sequence[int], load: Longs) -> Walker:
        """Return one for an island's ranks; load: what its links carry beforehand, [links + 1]."""
        n = len(ranks)
        table = network.route(np.repeat(ranks, n), np.tile(ranks, n)).reshape(n, n, -1)
        route = [[tuple(int(x) for x in table[a, b] if x < network.pad) for b in range(n)] for a in range(n)]
        return cls(route, network.capacity, load.copy())

    def walk(self, first: int, last: int | None = None) -> list[int]:
        """Return the places from first to last by way of all others, and count their loads; a cycle without a last.

        The worst-loaded link is as little loaded as the search finds; it stops at what no walk can better.
        """
        n = len(self.route)
        between = [place for place in range(n) if place not in (first, last)]
        end = first if last is None else last
        if n > SEARCHED:
            best = [first, *between, end]
        else:
            self.left = TRIED
            floor = self._floor(first, end)
            _, best = self._search([first], between, end, 0.0, (np.inf, [first, *between, end]), floor)
        self._count(best, 1)
        return best[:-1] if last is None else best if n > 1 else [first]

    def _floor(self, first: int, end: int) -> float:
        """Return the least worst load that any walk could have: every place is left and entered by some step."""
        n = len(self.route)
        step = [[self._worst(a, b) if a != b else np.inf for b in range(n)] for a in range(n)]
        leaving = (min(row) for a, row in enumerate(step) if a != end or first == end)
        return max(leaving, default=0.0) if n > 1 else 0.0

    def _worst(self, a: int, b: int) -> float:
        """Return the load over the capacity of the worst link from a to b once it carries one walk more."""
        return max(((self.load[x] + 1) / self.capacity[x] for x in self.route[a][b]), default=0.0)

    def _count(self, places: Sequence[int], more: int) -> None:
        """Add a walk to the loads, or take it away."""
        for a, b in pairwise(places):
            for link in self.route[a][b]:
                self.load[link] += more

    def _search(
        self,
        walked: list[int],
        rest: list[int],
        end: int,
        worst: float,
        best: tuple[float, list[int]],
        floor: float,
    ) -> tuple[float, list[int]]:
        """Return the best of `best` and the walks that begin as walked, with its worst load."""
        here = walked[-1]
        n = len(self.route)
        nexts = sorted((self._worst(here, place), (place - here) % n, place) for place in (rest or [end]))
        for load, _, place in nexts:
            if max(worst, load) >= best[0] or best[0] <= floor * (1 + 1e-9) or self.left <= 0:
                break
            self.left -= 1
            self._count([here, place], 1)
            if rest:
                others = [x for x in rest if x != place]
                best = self._search([*walked, place], others, end, max(worst, load), best, floor)
            else:
                best = max(worst, load), [*walked, place]
            self._count([here, place], -1)
        return best
