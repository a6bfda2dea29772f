"""Curves: measured seconds over a size, straight between two measurements on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sim.state import Floats


class Curve:
    """Seconds over bytes.

    Below the smallest size measured it is as long, as what is left there is a fixed cost; above the largest it grows
    in proportion.
    """

    def __init__(self, sizes: npt.ArrayLike, seconds: npt.ArrayLike) -> None:
        """Take measurements in any order; of several of one size the median counts.

        Raises:
            ValueError: there is none, or a size or time is not positive.
        """
        x, y = np.asarray(sizes, np.float64), np.asarray(seconds, np.float64)
        if not len(x) or not ((x > 0) & (y > 0) & np.isfinite(x) & np.isfinite(y)).all():
            raise ValueError(f"a curve needs sizes and seconds above 0, got {len(x)} measurements")
        self.sizes = np.unique(x)
        self.seconds = np.array([float(np.median(y[x == size])) for size in self.sizes])

    def at(self, sizes: npt.ArrayLike) -> Floats:
        """Return the seconds of some sizes; nothing takes no time."""
        asked = np.asarray(sizes, np.float64)
        some = np.maximum(asked, 1.0)
        inside = np.exp(np.interp(np.log(some), np.log(self.sizes), np.log(self.seconds)))
        beyond = np.maximum(1.0, some / self.sizes[-1])
        return np.asarray(np.where(asked > 0, inside * beyond, 0.0))

    def reaches(self, size: float) -> bool:
        """Whether so large a size was measured, or half of it."""
        return size <= 2 * float(self.sizes[-1])


class Surface:
    """Seconds of a pair of a query row and a key, over the rows and keys of a tile."""

    def __init__(self, rows: Sequence[float], keys: Sequence[float], seconds: Sequence[float]) -> None:
        """Take tiles in any order, of at least one shape."""
        points = sorted(zip(rows, keys, seconds, strict=True))
        self.rows = np.unique([row for row, _, _ in points])
        self.curves = [_of_row(points, row) for row in self.rows]

    def at(self, rows: Floats, keys: Floats) -> Floats:
        """Return the seconds a pair, beyond what was measured those of the nearest tile."""
        x = np.log(np.maximum(keys, 1.0))
        each = np.stack([np.interp(x, *curve) for curve in self.curves])  # (rows measured, ranks)
        place = np.interp(np.log(np.maximum(rows, 1.0)), np.log(self.rows), np.arange(len(self.rows)))
        low = np.minimum(place.astype(int), max(0, len(self.rows) - 2))
        share, high = place - low, np.minimum(low + 1, len(self.rows) - 1)
        at = np.arange(x.size).reshape(x.shape)
        flat = each.reshape(len(self.rows), -1)
        return np.asarray(np.exp((1 - share) * flat[low, at] + share * flat[high, at]))

    @property
    def most(self) -> tuple[float, float]:
        """The most rows, and keys, that were measured."""
        return float(self.rows[-1]), float(max(np.exp(keys[-1]) for keys, _ in self.curves))


def _of_row(points: Sequence[tuple[float, float, float]], row: float) -> tuple[Floats, Floats]:
    """The logarithms of the keys and of the seconds of all tiles of so many rows."""
    curve = Curve([k for r, k, _ in points if r == row], [s for r, _, s in points if r == row])
    return np.log(curve.sizes), np.log(curve.seconds)
