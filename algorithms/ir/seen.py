"""Seen: the tokens of one set that queries of another can see, and what they see as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from algorithms.ir.expr import Coords, Expr, Ints
from algorithms.ir.mask import ANYWHERE, Interval, Mask
from algorithms.ir.tokens import Count, Runs, Tokens

FEW = 256  # pairs of runs and positions that are looked at one by one


class Seen(Tokens):
    """The keys among `inner` that some query of `by` sees: of each run of queries, all from its first to its last."""

    __slots__ = ("by", "inner", "mask")

    def __init__(self, inner: Tokens, by: Tokens, mask: Mask) -> None:
        self.inner, self.by, self.mask = inner, by, mask

    @property
    def key(self) -> tuple[Any, ...]:
        return ("seen", self.mask, self.inner.key, self.by.key)

    @property
    def depth(self) -> int:
        return max(self.inner.depth, self.by.depth)

    @property
    def count(self) -> Expr:
        return Count(self)

    def runs(self, coords: Coords) -> Runs:
        return within(self.inner.runs(coords), view(self.mask, self.by.runs(coords)))

    def replace(self, new: Mapping[str, Expr]) -> Tokens:
        return Seen(self.inner.replace(new), self.by.replace(new), self.mask)

    def __str__(self) -> str:
        return f"seen({self.inner} by {self.by})"


def view(mask: Mask, rows: Runs, of_queries: bool = True) -> Interval:
    """What each run of queries sees, from the first key to the last; of keys: by which queries they are seen.

    Between the two all is seen, unless a striped run's steps are longer than a window or a document: then some is not.
    """
    interval = mask.interval if of_queries else mask.seen_by
    first = interval(rows.start).first
    last = interval(rows.start + rows.step * np.maximum(rows.count - 1, 0)).last
    held = rows.count > 0
    return Interval(np.where(held, first, ANYWHERE), np.where(held, last, -1))


def apart(view: Interval) -> Interval:
    """The same positions in intervals that do not overlap, along the last dimension."""
    order = np.argsort(view.first, axis=-1, kind="stable")
    first, last = (np.take_along_axis(x, order, -1) for x in view)
    done = np.maximum.accumulate(last, axis=-1)
    first = np.concatenate([first[..., :1], np.maximum(first[..., 1:], done[..., :-1] + 1)], axis=-1)
    return Interval(first, np.maximum(last, first - 1))


def within(runs: Runs, view: Interval) -> Runs:
    """The parts of runs inside some interval, in the order of the runs; intervals lie along the last dimension too."""
    first, last = (x[..., None, :] for x in apart(view))
    start, count, step = runs.start[..., None], runs.count[..., None], runs.step
    begin = np.clip(-((start - first) // step), 0, count)
    end = np.clip((last - start) // step + 1, begin, count)
    cut = np.broadcast_arrays(start + step * begin, end - begin)
    starts, counts = (x.reshape(*x.shape[:-2], -1) for x in cut)
    used = np.flatnonzero(np.any((counts > 0).reshape(-1, counts.shape[-1]), axis=0))
    used = used if len(used) else np.arange(1)  # no rank has any: one empty run says so
    return Runs(starts[..., used], counts[..., used], step)


def covered(runs: Runs, view: Interval) -> Ints:
    """How many positions of runs that do not overlap are inside some interval."""
    return inside(runs, apart(view))


def inside(runs: Runs, apart: Interval) -> Ints:
    """The same of intervals that do not overlap."""
    ends = _up_to(runs, np.concatenate([apart.last, apart.first - 1], axis=-1))
    held = apart.last.shape[-1]
    return np.asarray(ends[..., :held].sum(-1) - ends[..., held:].sum(-1))


def _up_to(runs: Runs, x: Ints) -> Ints:
    """How many positions of runs (..., k) are at x (..., m) or before."""
    if runs.step > 1 or runs.start.shape[-1] * x.shape[-1] < FEW:
        start, count = runs.start[..., None, :], runs.count[..., None, :]
        return np.asarray(np.clip((x[..., None] - start) // runs.step + 1, 0, count).sum(-1))
    lead = np.broadcast_shapes(runs.start.shape[:-1], runs.count.shape[:-1], x.shape[:-1])
    start, count, at = (
        np.broadcast_to(a, (*lead, a.shape[-1])).reshape(-1, a.shape[-1]) for a in (runs.start, runs.count, x)
    )
    top = int(start.max(initial=0)) + 1
    start = np.where(count > 0, start, top + 1)  # empty runs come last
    order = np.argsort(start, axis=-1, kind="stable")
    start, count = np.take_along_axis(start, order, -1), np.take_along_axis(count, order, -1)
    rank = np.arange(len(start))[:, None]
    ahead = rank * (top + 3)  # a rank's positions follow those of the rank before
    place = np.searchsorted((start + ahead).ravel(), np.clip(at, -1, top) + ahead, side="right")
    run = np.clip(place - rank * start.shape[-1] - 1, 0, None)  # the last that begins at x or before
    before = np.take_along_axis(np.cumsum(count, axis=-1) - count, run, -1)
    inside = np.clip(at - np.take_along_axis(start, run, -1) + 1, 0, np.take_along_axis(count, run, -1))
    return np.asarray(before + inside).reshape(*lead, -1)
