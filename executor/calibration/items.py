"""Items: things to measure, each a call and what a row says of it, measured in turn on all ranks at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

from executor import launch
from executor.timing import uncollected

Row = dict[str, Any]


@dataclass(frozen=True)
class Item:
    """Something to measure.

    Attributes:
        section: where its row goes. row: what tells it from others. call: does it once.
    """

    section: str
    row: Mapping[str, Any]
    call: Callable[[], Any]


def measured(items: Sequence[Item], comm: MPI.Comm, warmup: int, rounds: int) -> dict[str, list[Row]]:
    """Measure items in turn, so many times each; return rows by section, the same on all ranks.

    A time is that of the rank that took longest; a row has the median, p10 (low) and p90 (high) of the rounds.

    Raises:
        BadInput: ranks have other items.
    """
    launch.alike(comm, "measures something else than", repr([(item.section, sorted(item.row)) for item in items]))
    taken = np.zeros((warmup + rounds, len(items)))
    clock = time.perf_counter
    with uncollected():
        for number in range(len(taken)):
            for k, item in enumerate(items):
                comm.Barrier()
                begun = clock()
                item.call()
                taken[number, k] = clock() - begun
    longest = np.empty_like(taken)
    comm.Allreduce(taken, longest, MPI.MAX)
    low, median, high = np.quantile(longest[warmup:], (0.1, 0.5, 0.9), axis=0)
    sections: dict[str, list[Row]] = {}
    for item, *times in zip(items, median, low, high, strict=True):
        seconds = dict(zip(("seconds", "low", "high"), map(float, times), strict=True))
        sections.setdefault(item.section, []).append({**item.row, **seconds, "count": rounds})
    return sections


def random(shape: Sequence[int], dtype: Any) -> Any:
    """An array of normal numbers, drawn once and repeated where it is large."""
    size = int(np.prod(shape))
    drawn = np.random.default_rng(0).standard_normal(min(size, 1 << 16)).astype(dtype)
    return np.resize(drawn, size).reshape(shape)
