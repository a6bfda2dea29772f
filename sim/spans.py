"""Spans: when each op of a run was under way, on every rank, on every class of ranks, or on the outermost ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from sim.state import Floats, Longs

Record = Literal["full", "extent", "path"]  # path: extents to show, and whatever a critical path is found by
Times = tuple[Floats, Floats]  # when an op starts and ends, by column


@dataclass(frozen=True)
class Spans:
    """When each op ran. A permute starts on a rank when the rank is ready for it.

    Attributes:
        start, end: seconds, [ops, ranks]; or [ops], the earliest start and the latest end of any rank. An op
            that does nothing on a rank starts and ends when it is passed.
        makespan: seconds at which the last op ended.
        link_bytes: [links] bytes that each directed link carried.
        instants: distinct instants at which anything ended; 0 where none were looked for.
        rank_class: [ranks] the column of `start` and `end` that is each rank's; None: each its own, or an extent.
        how: how the times were found.
        again: works out an op's times once more, where `start` and `end` are extents; None: that is not possible.
    """

    start: Floats
    end: Floats
    makespan: float
    link_bytes: Floats
    instants: int
    rank_class: Longs | None = None
    how: str = "events"
    again: Callable[[int], Times] | None = None

    @property
    def has_times(self) -> bool:
        """Whether the times on every rank are known, or can be worked out."""
        return self.start.ndim == 2 or self.again is not None

    def times(self, op: int) -> Times:
        """The times of an op that has them, by column."""
        if self.again is not None:
            return self.again(op)
        return self.start[op], self.end[op]

    def column(self, rank: int) -> int:
        """The column that is a rank's."""
        return rank if self.rank_class is None else int(self.rank_class[rank])

    @cached_property
    def first(self) -> Floats:
        """[ops] the earliest start on any rank."""
        return self.start if self.start.ndim == 1 else np.asarray(self.start.min(1))

    @cached_property
    def last(self) -> Floats:
        """[ops] the latest end on any rank."""
        return self.end if self.end.ndim == 1 else np.asarray(self.end.max(1))

    def unfolded(self) -> Spans:
        """Return the same with a column for each rank."""
        if self.rank_class is None or self.start.ndim == 1:
            return self
        start, end = self.start[:, self.rank_class], self.end[:, self.rank_class]
        return replace(self, start=start, end=end, rank_class=None)

    def extents(self) -> Spans:
        """Return no more than the extents."""
        return replace(self, start=self.first, end=self.last, rank_class=None, again=None)

    def seconds(self, first: Longs, last: Longs) -> Floats:
        """Seconds from the start of each first to the end of each last op, summed by column; of no extents."""
        spent = self.end[last] - self.start[first]
        several = spent if spent.shape[1] > 1 else np.repeat(spent, 2, axis=1)  # NumPy sums one in another order
        return np.asarray(several.sum(0)[: spent.shape[1]])
