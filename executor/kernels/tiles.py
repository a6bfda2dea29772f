"""Which pieces of the score matrix a mask leaves: empty tiles are skipped, full ones need no mask.

A tile is a slice of the row positions by a slice of the column positions. A mask gives, for each query, the
last key position it may see; the least and the greatest of both sides then judge a tile from outside.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from executor.kernels import Positions, unknown

ANY_POSITION = np.iinfo(np.int64).max

LAST_VISIBLE: dict[str, Callable[[Positions], Positions]] = {
    "full": lambda rows: np.full_like(rows, ANY_POSITION),
    "causal": lambda rows: rows,
}


class View(Enum):
    """How much of a tile its mask leaves visible."""

    EMPTY = "no query sees a key"
    FULL = "every query sees every key"
    MIXED = "compare the positions one by one"


class Span(NamedTuple):
    """A slice of a position array, with the least and the greatest value inside."""

    start: int
    stop: int
    low: int
    high: int

    @property
    def slice(self) -> slice:
        """The slice, to index an array with."""
        return slice(self.start, self.stop)


def last_visible(mask: str, rows: Positions) -> Positions:
    """Return for each query the last key position it may see.

    Raises:
        ValueError: there is no mask of that name.
    """
    if mask not in LAST_VISIBLE:
        raise ValueError(unknown("mask", mask, dict(LAST_VISIBLE)))
    return LAST_VISIBLE[mask](rows)


def view(queries: Span, keys: Span) -> View:
    """Judge a tile from its span of last visible positions and its span of key positions."""
    if keys.low > queries.high:
        return View.EMPTY
    return View.FULL if keys.high <= queries.low else View.MIXED


def visible(queries: Span, keys: list[Span]) -> Iterator[tuple[Span, bool]]:
    """Yield the key spans that some query of `queries` sees, and whether the mask cuts through the tile."""
    for span in keys:
        seen = view(queries, span)
        if seen is not View.EMPTY:
            yield span, seen is View.MIXED


def cut(positions: Positions, size: int) -> list[Span]:
    """Cut an array of positions into even spans of at most `size`, never across a jump between long runs.

    A zigzag shard has two runs far apart: a span over both would be mixed against almost every other.
    """
    if not positions.size:
        return []
    edges = [0, *_jumps(positions, least_run=size // 4), positions.size]
    starts = np.concatenate([_even(a, b, size) for a, b in pairwise(edges)])
    lows, highs = np.minimum.reduceat(positions, starts), np.maximum.reduceat(positions, starts)
    stops = [*starts[1:], positions.size]
    return [Span(*map(int, span)) for span in zip(starts, stops, lows, highs, strict=True)]


def _jumps(positions: Positions, least_run: int) -> list[int]:
    """Return where a new run begins, if runs are as long as `least_run` on average; else nothing."""
    steps = np.diff(positions)
    jumps = np.flatnonzero(steps != steps[:1]) + 1
    return [] if (jumps.size + 1) * least_run > positions.size else jumps.tolist()


def _even(start: int, stop: int, size: int) -> Positions:
    """Return the starts of the fewest even pieces of at most `size`."""
    pieces = -(-(stop - start) // size)
    return start + np.arange(pieces) * (stop - start) // pieces
