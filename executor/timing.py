"""Timing: a schedule run again and again, all ranks starting together; a run lasts until its last rank ends."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from algorithms.ir import Schedule
from executor import mpi
from executor.arrays import Arrays
from executor.interpret import kernel_called
from executor.lower import execute, spans, waits

Floats = NDArray[np.float64]
LEAST = 3  # runs, however short the time


class Plan(NamedTuple):
    """How often to run: first to warm up, then so often, or until so many seconds have passed."""

    warmup: int = 3
    repeats: int = 9
    seconds: float = float("inf")


@dataclass(frozen=True)
class Runs:
    """What all runs took; on rank 0, elsewhere the own part.

    Attributes:
        start, end, waited: of each op in each run on each rank, seconds from its start, (runs, ops, ranks); waited is
            when a communication op began to be waited for.
        sent: bytes each rank sent in each op of a run, (ops, ranks).
    """

    start: Floats
    end: Floats
    waited: Floats
    sent: NDArray[np.int64]

    @property
    def seconds(self) -> Floats:
        """How long each run took, (runs,)."""
        return np.asarray(self.end.max(axis=(1, 2), initial=0.0))

    @property
    def band(self) -> tuple[float, float, float]:
        """p10, median and p90 of that."""
        return band(self.seconds)

    @property
    def middle(self) -> int:
        """The run nearest the median."""
        return int(np.abs(self.seconds - np.median(self.seconds)).argmin())

    @property
    def spent(self) -> Floats:
        """Median seconds in which an op kept a rank busy, or waiting, (ops, ranks)."""
        begun = np.where(self.waited < self.end, self.waited, self.start)
        return np.asarray(np.median(self.end - begun, axis=0))

    def run(self, number: int, rank: int) -> mpi.Run:
        """One run as one rank saw it."""
        return mpi.Run({}, self.sent[:, rank], self.start[number, :, rank], self.end[number, :, rank])


def band(seconds: Floats) -> tuple[float, float, float]:
    """p10, median and p90 of some times."""
    p10, median, p90 = np.quantile(seconds, (0.1, 0.5, 0.9))
    return float(p10), float(median), float(p90)


def timed(
    schedule: Schedule,
    arrays: Arrays,
    comm: MPI.Comm,
    kernel: str,
    ways: Mapping[str, str] | None,
    plan: Plan,
) -> Runs:
    """Time a schedule; all ranks of the communicator call it together.

    It is lowered once: what is timed is the calls to the kernel, to MPI and between, as `mpi.run` makes them.
    """
    streams = mpi.Streams(comm)
    try:
        sent = [0] * len(schedule.ops)
        program = mpi.lowered(schedule, arrays, streams, kernel_called(kernel), ways, sent)
        found: list[Floats] = []
        begun, ops = time.monotonic(), len(schedule.ops)
        with uncollected():
            for number in range(plan.warmup + plan.repeats):
                comm.Barrier()
                times = execute(program, time.perf_counter)
                if number == 0:
                    once = np.array(sent, dtype=np.int64)
                if number >= plan.warmup:
                    clock = times - times[0]
                    found.append(np.stack([*spans(program, clock, ops), waits(program, clock, ops)]))
                late = len(found) >= LEAST and time.monotonic() - begun > plan.seconds
                if comm.bcast(late, root=0):
                    break
    finally:
        streams.close()
    mine = np.stack(found), once
    ranks = comm.gather(mine, root=0) or [mine]
    start, end, waited = np.moveaxis(np.stack([times for times, _ in ranks], axis=-1), 1, 0)
    return Runs(start, end, waited, np.stack([sent for _, sent in ranks], axis=-1))


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Keep Python from looking for garbage meanwhile."""
    was = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
