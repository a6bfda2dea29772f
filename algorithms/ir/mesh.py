"""Meshes: ranks arranged on named axes, and the groups that collectives run over."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from algorithms.ir.cycle import around
from algorithms.ir.expr import Const, Coord, Coords, Expr, Ints, ScheduleError, total

JOB_AXES = ("tp", "dp")  # split heads and batch; no algorithm names them
Axes = tuple[str, ...]


class Mesh:
    """P ranks on named axes, slowest first: rank = row-major index.

    Args:
        axes: size of each axis, at least 1; `tp` splits heads and `dp` splits the batch.
    Raises:
        ScheduleError: a size is not a positive integer.
    """

    def __init__(self, /, **axes: int) -> None:
        for name, size in axes.items():
            if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
                raise ScheduleError(f"S3: mesh axis {name} must be at least 1, got {size}")
        self.axes = {name: int(size) for name, size in axes.items()}
        self.size = prod(self.axes.values())
        self._shifts: dict[tuple[Axes, int, tuple[int, ...]], dict[str, Expr]] = {}

    @property
    def names(self) -> Axes:
        """Axis names, slowest first."""
        return tuple(self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Axis sizes, slowest first."""
        return tuple(self.axes.values())

    def coord(self, axis: str) -> Expr:
        """A rank's index along one axis."""
        return Coord(axis, self.axes[axis])

    def over(self, axes: str | Sequence[str]) -> Axes:
        """Check the axes a collective names and return them as a tuple."""
        named = (axes,) if isinstance(axes, str) else tuple(axes)
        for a in named:
            if a not in self.axes:
                raise ScheduleError(f"S3: no mesh axis {a!r}: expected one of {', '.join(self.names)}")
        if not named or len(set(named)) != len(named):
            raise ScheduleError(f"S3: a collective needs different mesh axes, got {named}")
        return named

    def count(self, over: Axes) -> int:
        """Members of a group over these axes."""
        return prod(self.axes[a] for a in over)

    def member(self, over: Axes) -> Expr:
        """A rank's place in its group: row-major over the axes in the order named."""
        place: Expr = Const(0)
        for a in over:
            place = total(place * self.axes[a], self.coord(a))
        return place

    def unravel(self, place: Expr, over: Axes) -> dict[str, Expr]:
        """The coordinates of the member at this place of a group."""
        coords, below = {}, 1
        for a in reversed(over):
            coords[a] = place // below % self.axes[a]
            below *= self.axes[a]
        return coords

    def behind(self, over: Axes, shift: int, along: tuple[int, ...] = ()) -> dict[str, Expr]:
        """The coordinates of the member `shift` places before a rank, around its group, or along a cycle of places."""
        key = over, shift, along
        if key not in self._shifts:
            member = self.member(over)
            place = around(along, member, -shift) if along else (member - shift) % self.count(over)
            self._shifts[key] = self.unravel(place, over)
        return self._shifts[key]

    def grid(self) -> Coords:
        """Coordinates of all ranks as open grids: each axis varies along its own dimension only."""
        n = len(self.axes)
        return {
            a: np.arange(s, dtype=np.int64).reshape([s if j == k else 1 for j in range(n)])
            for k, (a, s) in enumerate(self.axes.items())
        }

    def of_rank(self, rank: int) -> Coords:
        """Coordinates of one rank as 0-d arrays."""
        index = np.unravel_index(rank, self.shape) if self.axes else ()
        return {a: np.asarray(x, dtype=np.int64) for a, x in zip(self.axes, index, strict=True)}

    def spread(self, x: Ints) -> Ints:
        """Values on the open grid -> one a rank, shape (P,)."""
        return np.broadcast_to(x, self.shape).reshape(-1)

    def groups(self, over: Axes) -> Ints:
        """Ranks of every group, shape (groups, members)."""
        order = [k for k, a in enumerate(self.names) if a not in over]
        order += [self.names.index(a) for a in over]
        ranks = np.arange(self.size, dtype=np.int64).reshape(self.shape).transpose(order)
        return ranks.reshape(-1, self.count(over))

    def by_group(self, x: Ints, over: Axes) -> Ints:
        """Values on the open grid -> shape (groups, members), as `groups` orders them."""
        return self.spread(x)[self.groups(over)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and list(self.axes.items()) == list(other.axes.items())

    def __hash__(self) -> int:
        return hash(tuple(self.axes.items()))

    def __str__(self) -> str:
        return ",".join(f"{a}={s}" for a, s in self.axes.items()) or "1 rank"

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{a}={s}' for a, s in self.axes.items())})"


def parse_mesh(text: str) -> dict[str, int]:
    """Read 'row=8,col=8' as sizes by axis name, in the order written."""
    axes: dict[str, int] = {}
    for part in text.split(","):
        name, sign, size = (x.strip() for x in part.partition("="))
        if not sign or not name.isidentifier() or not size.isdecimal() or int(size) < 1:
            raise ScheduleError(f"a mesh is written axis=size,axis=size with sizes of at least 1, got {text!r}")
        if name in axes:
            raise ScheduleError(f"mesh axis {name!r} is named twice in {text!r}")
        axes[name] = int(size)
    return axes
