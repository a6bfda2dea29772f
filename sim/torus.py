"""Rings through a torus: as many Hamiltonian cycles as it has dimensions, which share no cable.

    x - x    x   x    Begin with the rings along each axis, a colour an axis. Where two cables of one colour are
    |   | -> |   |    opposite sides of a square whose others have one of another colour, let both pairs change
    x - x    x - x    places: two rings of either colour become one. So on, until each colour is one ring.

A chip is left and entered by every cable once in each direction, so that rings both ways use all that there is: of d
dimensions 2 d links a chip, which is the bus bandwidth of an all-reduce and cannot be more.

References:
    Aubert, Schneider. "Decomposition de la somme cartesienne d'un cycle et de l'union de deux cycles hamiltoniens en
    cycles hamiltoniens." Discrete Mathematics 38, 1982: a product of cycles is made of Hamiltonian cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import prod

import numpy as np

LEAST = 3  # chips of a side; two are joined by one cable
ROUNDS = 20  # of looks at all squares; the largest pods need six
SHAKEN = 40  # squares of a round that change without a gain, about

Edge = tuple[int, int]  # from a place, along an axis
Square = tuple[Edge, Edge, Edge, Edge]  # two opposite edges, and the other two


def sides(neighbours: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """Return the sides of a torus, that of the places furthest apart first; None where places are joined otherwise.

    Args:
        neighbours: of each place, sorted; places are numbered row by row.
    """
    n, first = len(neighbours), neighbours[0]
    found: list[int] = []
    stride = 1
    for near, far in zip(first[::2], first[1::2], strict=False):
        if near != stride or far % stride or far // stride + 1 < LEAST:
            return None
        found.insert(0, far // stride + 1)
        stride *= found[0]
    if stride != n or 2 * len(found) != len(first):
        return None
    onward = _onward(found)
    around = np.sort(np.concatenate([onward, _back(onward)], axis=1), axis=1)
    is_torus = all(len(some) == len(first) for some in neighbours) and np.array_equal(around, np.array(neighbours))
    return tuple(found) if is_torus else None


def cycles(shape: Sequence[int]) -> list[list[int]]:
    """Return Hamiltonian cycles of a torus that share no cable: as a rule one a dimension, of small odd ones fewer."""
    if len(shape) == 1:
        return [[*range(shape[0])]]
    colours = _Colours(shape)
    colours.merge()
    for turn in range(ROUNDS):
        if colours.whole():
            break
        colours.mend(turn)
    return [walks[0] for walks in map(colours.walks, range(len(shape))) if len(walks) == 1]


class _Colours:
    """Which colour each cable has; a place has two cables of each.

    Attributes:
        onward: [places][axes] the next place. colour: [places][axes] of the cable there.
        beside: [colours][places] the two places that cables of a colour lead to.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        """Begin with a colour for each axis."""
        onward = _onward(shape)
        self.axes, self.n = range(len(shape)), prod(shape)
        self.onward: list[list[int]] = onward.tolist()
        self.colour = [[*self.axes] for _ in range(self.n)]
        both = np.stack([onward, _back(onward)], axis=2)
        self.beside: list[list[list[int]]] = both.transpose(1, 0, 2).tolist()

    def squares(self) -> Iterator[Square]:
        """Yield every square whose opposite cables have one colour each, and not the same."""
        for place in range(self.n):
            for a, b in combinations(self.axes, 2):
                over, up = self.onward[place][a], self.onward[place][b]
                if self.colour[place][a] == self.colour[up][a] != self.colour[place][b] == self.colour[over][b]:
                    yield (place, a), (up, a), (place, b), (over, b)

    def merge(self) -> None:
        """Change squares that each make one ring of two in both colours, so that none is left with more than others."""
        parts = [[*range(self.n)] for _ in self.axes]
        left = []  # of each colour, the rings more than one
        for c in self.axes:
            walks = self.walks(c)
            left.append(len(walks) - 1)
            for walk in walks:
                for place in walk:
                    parts[c][place] = walk[0]
        for square in self.squares():
            i, j = self._pair(square)
            ends = [(_root(parts[c], a[0]), _root(parts[c], b[0])) for c, (a, b) in _sided(square, i, j)]
            after = [count - (c in (i, j)) for c, count in enumerate(left)]
            is_even = _lone(after) <= max(1, _lone(left))
            if is_even and all(a != b for a, b in ends):
                left = after
                for c, (a, b) in zip((i, j), ends, strict=True):
                    parts[c][a] = b
                self._change(square)

    def mend(self, turn: int) -> None:
        """Change squares that make one ring of two in a colour and keep the other's, and a few that keep the number.

        Args:
            turn: another one chooses others.
        """
        where = [self._positions(c) for c in self.axes]
        random = np.random.default_rng(turn)
        for square in self.squares():
            pair = self._pair(square)
            gains = [self._gain(where[c], *edges) for c, edges in _sided(square, *pair)]
            if sum(gains) > 0 or (sum(gains) == 0 and random.random() < SHAKEN / self.n):
                self._change(square)
                for c in pair:
                    where[c] = self._positions(c)

    def whole(self) -> bool:
        """Tell whether each colour is one ring."""
        return all(len(self.walks(c)) == 1 for c in self.axes)

    def walks(self, colour: int) -> list[list[int]]:
        """Return the rings of a colour, each as its places in order."""
        beside, seen, found = self.beside[colour], [False] * self.n, []
        for first in range(self.n):
            if seen[first]:
                continue
            walk, before, here = [], -1, first
            while not seen[here]:
                seen[here] = True
                walk.append(here)
                one, other = beside[here]
                before, here = here, (other if one == before else one)
            found.append(walk)
        return found

    def _positions(self, colour: int) -> list[tuple[int, int, int]]:
        """Return of each place its ring, its position there, and how long that is."""
        found = [(0, 0, 0)] * self.n
        for ring, walk in enumerate(self.walks(colour)):
            for position, place in enumerate(walk):
                found[place] = ring, position, len(walk)
        return found

    def _gain(self, where: list[tuple[int, int, int]], one: Edge, other: Edge) -> int:
        """Return by how many rings fewer there are when a square changes: 1 of two rings, 0 or -1 of one."""
        p, q = one[0], self.onward[one[0]][one[1]]
        r, s = other[0], self.onward[other[0]][other[1]]
        if where[p][0] != where[r][0]:
            return 1
        length = where[p][2]
        ahead = [(where[b][1] - where[a][1]) % length == 1 for a, b in ((p, q), (r, s))]
        return 0 if ahead[0] == ahead[1] else -1

    def _pair(self, square: Square) -> tuple[int, int]:
        """Return the two colours of a square."""
        (place, a), _, (_, b), _ = square
        return self.colour[place][a], self.colour[place][b]

    def _change(self, square: Square) -> None:
        """Let the two pairs of a square change their colours."""
        i, j = self._pair(square)
        for c, other, edges in ((i, j, square[:2]), (j, i, square[2:])):
            for place, axis in edges:
                self.colour[place][axis] = other
                ends = place, self.onward[place][axis]
                for a, b in (ends, ends[::-1]):
                    self.beside[c][a].remove(b)
                    self.beside[other][a].append(b)


def _sided(square: Square, i: int, j: int) -> tuple[tuple[int, tuple[Edge, Edge]], tuple[int, tuple[Edge, Edge]]]:
    """Return the edges of a square by colour."""
    return (i, (square[0], square[1])), (j, (square[2], square[3]))


def _lone(left: list[int]) -> int:
    """Return how many of the largest number have no partner among the others."""
    return max(0, 2 * max(left) - sum(left))


def _root(parts: list[int], place: int) -> int:
    """Return what stands for the part that a place is in."""
    while parts[place] != place:
        parts[place] = parts[parts[place]]
        place = parts[place]
    return place


def _onward(shape: Sequence[int]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the place after each along each axis, [places, axes]."""
    grid = np.arange(prod(shape)).reshape(shape)
    return np.stack([np.roll(grid, -1, axis).reshape(-1) for axis in range(len(shape))], axis=1)


def _back(
    onward: np.ndarray[tuple[int, int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the place before each along each axis."""
    return np.argsort(onward, axis=0)
