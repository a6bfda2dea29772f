"""Segments: positions between which what a rank's rows see does not change, to tell what may be left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from algorithms.ir.expr import Ints
from algorithms.ir.schedule import Schedule, Value
from algorithms.ir.seen import view
from algorithms.ir.tokens import Runs

_CHUNK = 1 << 14  # segments times ranks looked at at once


class Segments(NamedTuple):
    """Segments edges[k] .. edges[k + 1] - 1, and whether some row of a rank sees them, (P, segments)."""

    edges: Ints
    needed: NDArray[np.bool_]


def segments(schedule: Schedule, rows: Value, by_queries: bool, whole: Runs) -> Iterator[Segments]:
    """Cut the positions of the other side where what the rows of some rank see begins or ends, some at a time.

    Args:
        by_queries: the rows are keys, and the other side queries. whole: all of the other side. What comes after the
            last key is a sink, which every query sees.
    """
    mesh, problem = schedule.mesh, schedule.problem
    begin, end = int(whole.start.min()), int((whole.start + whole.count).max())
    runs = rows.tokens.runs(mesh.grid())
    first, last = view(problem.mask, runs, not by_queries)
    if by_queries:
        sinks = runs.start >= problem.key_len
        first, last = np.where(sinks, begin, first), np.where(sinks, end - 1, last)
    k = first.shape[-1]
    first, last = (np.broadcast_to(x, (*mesh.shape, k)).reshape(-1, k) for x in (first, last))
    edges = np.unique(
        np.clip(np.concatenate([first.ravel(), last.ravel() + 1, [begin, problem.key_len, end]]), begin, end)
    )
    width = max(1, _CHUNK // mesh.size)
    for at in range(0, len(edges) - 1, width):
        part = edges[at : at + width + 1]
        inside = (first[..., None] <= part[:-1]) & (part[1:] - 1 <= last[..., None])
        yield Segments(part, inside.any(1) | (part[:-1] >= problem.key_len))


def cut(runs: Runs, edges: Ints) -> Runs:
    """The parts of runs in each segment, runs still along the last dimension: (..., k) -> (..., segments, k)."""
    start, count = np.broadcast_arrays(runs.start, runs.count)
    start, count = start[..., None, :], count[..., None, :]
    before = np.clip(-((start - edges[:, None]) // runs.step), 0, count)
    return Runs(start + runs.step * before[..., :-1, :], np.diff(before, axis=-2), runs.step)
