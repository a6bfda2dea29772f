"""Every rank of MPI runs its part of a schedule, and rank 0 gets all results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mpi4py import MPI

from algorithms.ir import Attention, Schedule
from executor import launch, mpi
from executor.arrays import Arrays
from executor.check import warm


class Everyone:
    """Runs schedules on all ranks of a communicator, and keeps the communicators of its streams."""

    def __init__(
        self,
        comm: MPI.Comm,
        kernel: str,
        ways: Mapping[str, str] | None,
        timeline: Path | None = None,
        run: Callable[..., mpi.Run] | None = None,
    ) -> None:
        """Write the timeline of what runs to this file, if one is given; `run` stands in for `executor.mpi.run`."""
        self.comm, self.kernel, self.ways, self.timeline = comm, kernel, ways, timeline
        self.run = run or mpi.run
        self.streams = mpi.Streams(comm)

    def __call__(self, work: Sequence[tuple[Schedule, Arrays]]) -> list[dict[str, list[Any]]] | None:
        """Run schedules one after the other; return their results by rank on rank 0, None on the others."""
        launch.alike(self.comm, "traced other schedules than", "".join(full_text(schedule) for schedule, _ in work))
        mine = [self._run(schedule, arrays).results for schedule, arrays in work]
        ranks = self.comm.gather(mine, root=0)
        if ranks is None:
            return None
        return [{name: [x[name] for x in every] for name in every[0]} for every in zip(*ranks, strict=True)]

    def _run(self, schedule: Schedule, arrays: Arrays) -> mpi.Run:
        timed = self.timeline is not None
        run = self.run(schedule, arrays, self.comm, self.kernel, self.ways, self.streams, together=timed)
        if self.timeline is not None:
            about = {"ways": "native" if self.ways is None else dict(self.ways), "kernel": self.kernel}
            measured = mpi.timeline(schedule, run, self.comm, about)
            if measured is not None:
                measured.write(self.timeline)
        return run


def warm_all(comm: MPI.Comm, kernel: str, problems: Sequence[Attention]) -> None:
    """Let one rank of each host compile; the others then find its code in the cache, before anything is timed."""
    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    first = here.Get_rank() == 0
    here.Free()
    for turn in (first, not first):
        for problem in {(p.dtype, p.kv_dtype, p.phase): p for p in problems}.values() if turn else ():
            warm(kernel, problem)
        launch.quietly(comm)


def full_text(schedule: Schedule) -> str:
    """A schedule as text that differs where any rank would do anything else."""
    tokens = [str(v.tokens) for op in schedule.ops for v in op.outputs]
    return f"{schedule}\n{schedule.problem}\n{tokens}\n"
