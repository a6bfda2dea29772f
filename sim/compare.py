"""Compare: every algorithm of a phase, on every mesh of the job and in every layout worth trying, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from algorithms.ir import Attention, Inapplicable, Mesh, Program, Schedule
from algorithms.ir.job import Job
from algorithms.ir.mesh import JOB_AXES
from algorithms.ir.timeline import Timeline
from algorithms.own import traced
from sim.bound import Bound, bound
from sim.detours import NoPathError
from sim.faults import REROUTE_DELAY, Fault
from sim.jitter import Band
from sim.result import Errors, Result, result
from sim.simulate import Site, simulate

Programs = Mapping[str, Mapping[str, Program]]  # by algorithm, then by phase
Progress = Callable[[float, str], None]  # share done, what is being done
LIBRARY_WAYS = {"all_reduce": ("ring", "doubling")}  # long messages take the ring, short ones a tree's few steps


class Refusal(NamedTuple):
    """An algorithm that cannot run, on which mesh (None: on any), and why."""

    algorithm: str
    mesh: Mapping[str, int] | None
    reason: str


@dataclass(frozen=True)
class Candidate:
    """An algorithm on one mesh, with the tokens dealt in one way."""

    algorithm: str
    program: Program
    mesh: Mesh
    problem: Attention

    def __str__(self) -> str:
        return f"{self.algorithm} on {self.mesh}, {self.problem.layout}"

    def schedule(self) -> Schedule:
        """Trace the algorithm; one from a file of the user's is held to the laws.

        Raises:
            Inapplicable: it cannot serve this problem on this mesh.
            ScheduleError: it is wrong.
        """
        if ":" not in self.algorithm:
            return self.program(self.problem, self.mesh)
        return traced(str(self), self.program, self.problem, self.mesh)


@dataclass(frozen=True)
class Comparison:
    """Results, best first but what does not fit last, with their candidates; what cannot run; and the bound of all."""

    ranked: tuple[tuple[Candidate, Result], ...]
    inapplicable: tuple[Refusal, ...]
    bound: Bound

    @property
    def results(self) -> list[Result]:
        """The results alone."""
        return [found for _, found in self.ranked]


def layouts(program: Program, problem: Attention, asked: str) -> tuple[str, ...]:
    """Layouts worth trying: the program's own where a causal mask must be balanced, else contiguous."""
    if asked != "auto":
        return (asked,)
    balance = problem.mask == "causal" and problem.phase != "decode"
    return program.layouts if balance else ("contiguous",)


def meshes(program: Program, job: Job) -> list[Mesh]:
    """The meshes to try: the one typed, or every split of the sequence's ranks over the program's axes.

    Raises:
        Inapplicable: the mesh typed has other axes.
    """
    found = job.meshes(program.axes)
    if not found:
        typed = [axis for axis in job.axes or () if axis not in JOB_AXES]
        raise Inapplicable(f"it runs over mesh axes {', '.join(program.axes)}, not {', '.join(typed) or 'none'}")
    return found


def candidates(
    programs: Programs, problem: Attention, job: Job, layout: str = "auto"
) -> tuple[list[Candidate], list[Refusal]]:
    """List what to try, and the algorithms that have nothing for this phase or mesh."""
    found: list[Candidate] = []
    refused: list[Refusal] = []
    for name, phases in programs.items():
        program = phases.get(problem.phase)
        if program is None:
            refused.append(Refusal(name, None, f"it is written for {', '.join(phases)}, not {problem.phase}"))
            continue
        try:
            found += [
                Candidate(name, program, mesh, replace(problem, layout=kind))
                for mesh in meshes(program, job)
                for kind in layouts(program, problem, layout)
            ]
        except Inapplicable as reason:
            refused.append(Refusal(name, job.axes, str(reason)))
    return found, refused


def compare(
    programs: Programs,
    problem: Attention,
    job: Job,
    site: Site,
    *,
    layout: str = "auto",
    ways: Mapping[str, str] | None = None,
    errors: Errors | None = None,
    faults: Sequence[Fault] = (),
    reroute_delay: float = REROUTE_DELAY,
    repeats: int = 1,
    progress: Progress | None = None,
) -> Comparison:
    """Simulate every candidate and rank them by time, those that fit the memory first.

    Args:
        site: the cluster, with as many ranks as the job.
        layout: one layout for all, or auto.
        errors: stated relative errors of the model.
        faults: what is slow, down, busy or late; what has no path then cannot run.
        repeats: how many seeds a routing that hashes is tried with; the median counts.
    """
    sites = [site.repeat(number) for number in range(repeats)]
    todo, refused = candidates(programs, problem, job, layout)
    least = bound(problem, job.mesh({"cp": job.cp}), site)
    ranked: list[tuple[Candidate, Result]] = []
    for number, candidate in enumerate(todo):
        if progress is not None:
            progress(number / len(todo), str(candidate))
        try:
            schedule = candidate.schedule()
            runs = [(fastest(schedule, s, ways, faults=faults, reroute_delay=reroute_delay), s) for s in sites]
        except (Inapplicable, NoPathError) as reason:
            refused.append(Refusal(candidate.algorithm, candidate.mesh.axes, str(reason)))
            continue
        ranked.append((candidate, _middle(candidate.algorithm, schedule, runs, least, errors or Errors())))
    ranked.sort(key=lambda pair: (not pair[1].fits, pair[1].time_s, pair[0].algorithm))
    return Comparison(tuple(_distinct(ranked)), tuple(_once(refused)), least)


def _middle(
    algorithm: str, schedule: Schedule, runs: list[tuple[Timeline, Site]], least: Bound, errors: Errors
) -> Result:
    """The result of the run in the middle, its interval as much wider as the others are apart."""
    runs.sort(key=lambda one: one[0].makespan)
    found = result(algorithm, schedule, *runs[(len(runs) - 1) // 2], least, errors)
    return found.widened(Band.of([timeline.makespan for timeline, _ in runs])) if len(runs) > 1 else found


def _once(refused: list[Refusal]) -> list[Refusal]:
    """Keep the first of those that an algorithm gives the same reason for."""
    first: dict[tuple[str, str], Refusal] = {}
    for one in refused:
        first.setdefault((one.algorithm, one.reason), one)
    return list(first.values())


def run(
    candidate: Candidate, site: Site, ways: Mapping[str, str] | None = None, **how: Any
) -> tuple[Schedule, Timeline]:
    """Trace and simulate one candidate; `how` is what else `simulate` takes."""
    schedule = candidate.schedule()
    return schedule, fastest(schedule, site, ways, **how)


def fastest(schedule: Schedule, site: Site, ways: Mapping[str, str] | None = None, **how: Any) -> Timeline:
    """Simulate a schedule in the fastest of the ways that a collective library chooses from.

    Args:
        ways: way by collective, where one was asked for. how: what else `simulate` takes.
    """
    timelines = (simulate(schedule, site, ways=chosen, **how) for chosen in choices(schedule, ways or {}))
    return min(timelines, key=lambda timeline: timeline.makespan)


def choices(schedule: Schedule, asked: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The ways to try: those asked for, and for other collectives every one that libraries choose from by size."""
    used = {op.kind for op in schedule.ops}
    free = [kind for kind in LIBRARY_WAYS if kind in used and kind not in asked]
    for picked in product(*(LIBRARY_WAYS[kind] for kind in free)):
        yield {**asked, **dict(zip(free, picked, strict=True))}


def _distinct(ranked: list[tuple[Candidate, Result]]) -> Iterator[tuple[Candidate, Result]]:
    """Leave out a candidate with an axis of one rank that is, in every number, an algorithm of fewer axes."""
    simple = {_numbers(found): len(one.program.axes) for one, found in ranked if _trivial(one) == 0}
    for candidate, found in ranked:
        axes = len(candidate.program.axes)
        if not (_trivial(candidate) and simple.get(_numbers(found), axes) < axes):
            yield candidate, found


def _trivial(candidate: Candidate) -> int:
    """Axes of one rank."""
    return sum(candidate.mesh.axes[axis] == 1 for axis in candidate.program.axes) if candidate.mesh.size > 1 else 0


def _numbers(found: Result) -> tuple[object, ...]:
    """What two results that are the same schedule share."""
    return found.layout, found.time_s, found.compute_s, found.sent_bytes, found.peak_bytes
