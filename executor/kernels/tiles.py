"""Which pieces of the score matrix a mask leaves: empty tiles are skipped, full ones need no mask.

A tile is a slice of the row positions by a slice of the column positions. A mask gives each query the first and the
last key position that it may see; the least and the greatest of these, and of the keys, judge a tile from outside.
"""

from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from algorithms.ir.mask import Interval
from executor.kernels import Positions


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


class Rows(NamedTuple):
    """A slice of the queries, and between which keys they see: some of them from `first.low`, all to `last.low`."""

    first: Span
    last: Span

    @property
    def slice(self) -> slice:
        """The slice, to index an array with."""
        return self.first.slice


def view(queries: Rows, keys: Span) -> View:
    """Judge a tile from what its queries see and its span of key positions."""
    first, last = queries
    if keys.low > last.high or keys.high < first.low:
        return View.EMPTY
    return View.FULL if keys.high <= last.low and keys.low >= first.high else View.MIXED


def visible(queries: Rows, keys: list[Span]) -> Iterator[tuple[Span, bool]]:
    """Yield the key spans that some query of `queries` may see, and whether the mask cuts through the tile."""
    for span in keys:
        seen = view(queries, span)
        if seen is not View.EMPTY:
            yield span, seen is View.MIXED


def cut_rows(interval: Interval, size: int) -> list[Rows]:
    """Cut queries into even spans of at most `size`, never across a jump in what they see between long runs."""
    first, last = interval
    if not last.size:
        return []
    jumps = np.union1d(_jumps(first, size // 4), _jumps(last, size // 4)).astype(int)
    starts = _starts(last.size, jumps.tolist(), size)
    return [Rows(*pair) for pair in zip(_spans(first, starts), _spans(last, starts), strict=True)]


def cut(positions: Positions, size: int) -> list[Span]:
    """Cut an array of positions into even spans of at most `size`, never across a jump between long runs.

    A zigzag shard has two runs far apart: a span over both would be mixed against almost every other.
    """
    if not positions.size:
        return []
    return _spans(positions, _starts(positions.size, _jumps(positions, size // 4), size))


def _starts(count: int, jumps: list[int], size: int) -> Positions:
    return np.concatenate([_even(a, b, size) for a, b in pairwise([0, *jumps, count])])


def _spans(positions: Positions, starts: Positions) -> list[Span]:
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
