"""The `time` command from its options to its exit status, the same on every rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from algorithms.options import Asked
from executor import launch
from executor.arrays import random_inputs
from executor.chosen import chosen
from executor.environment import environment, load
from executor.errors import BadInput
from executor.gpu.choice import kernel_for
from executor.interpret import kernel_called
from executor.memory import keep_freed
from executor.outputs import output
from executor.pinning import settle
from executor.proof import read, ways_from


@dataclass(frozen=True)
class Wanted:
    """How to time, as typed."""

    native: bool
    kernel: str
    warmup: int
    repeats: int
    seconds: float | None
    seed: int
    timeline: str | None
    as_json: bool
    pin: bool
    oversubscribe: bool


def timed(name: str, asked: Asked, wanted: Wanted) -> int:
    """Time an algorithm on all ranks of MPI; return the exit status.

    Raises:
        BadInput: before anything runs.
    """
    comm = launch.world()
    ways = ways_from(asked.ways, wanted.native)
    wanted = replace(wanted, kernel=kernel_for("cpu", wanted.kernel))
    read(lambda: kernel_called(wanted.kernel))
    found = chosen(name, asked, comm.Get_size())
    path: Path | None = None if wanted.timeline is None else output("--timeline", wanted.timeline)
    if wanted.seconds is not None and not 0 < wanted.seconds < float("inf"):
        raise BadInput(f"--seconds must be above 0, got {wanted.seconds:g}")
    from executor.overmpi import full_text, warm_all
    from executor.time_report import Timed
    from executor.timing import Plan
    from executor.timing import timed as time_all

    launch.alike(comm, "was asked for something else than", full_text(found.schedule) + repr(wanted))
    about = environment(comm, settle(comm, wanted.pin, wanted.oversubscribe))
    keep_freed()
    warm_all(comm, wanted.kernel, [found.problem])
    arrays = random_inputs(found.problem, wanted.seed)
    plan = Plan(wanted.warmup, wanted.repeats, wanted.seconds or float("inf"))
    runs = time_all(found.schedule, arrays, comm, wanted.kernel, ways, plan)
    answer = Timed(found, runs, wanted.kernel, ways, {**about, "load_after": load()}, wanted.warmup)
    if path is not None:
        launch.by_rank_0(comm, lambda: answer.timeline().write(path))
    if comm.Get_rank() == 0:
        print(answer.json() if wanted.as_json else answer.text(), flush=True)
    return 0
