"""Compare: every algorithm of a phase, on every mesh of the job and in every layout worth trying, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from algorithms.ir import Attention, Inapplicable, Mesh, Program, Schedule
from algorithms.ir.job import Job
from algorithms.ir.mesh import JOB_AXES
from algorithms.own import traced
from sim.bound import Bound, bound
from sim.detours import NoPathError
from sim.estimate import LONG, CrowdedError
from sim.faults import REROUTE_DELAY, Fault
from sim.jitter import Jitter
from sim.pacing import PLAIN, Pacing
from sim.repeats import Repeats, repeated
from sim.result import Errors, Result, result
from sim.simulate import Site

Programs = Mapping[str, Mapping[str, Program]]  # by algorithm, then by phase
Progress = Callable[[float, str], None]  # share done, what is being done


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
    """Layouts worth trying: the one asked for, or those that the program knows to suit the mask."""
    return program.tries(problem) if asked == "auto" else (asked,)


def meshes(program: Program, job: Job) -> list[Mesh]:
    """The meshes to try: the one typed, or every split of the sequence's ranks over the program's axes.

    Raises:
        Inapplicable: the mesh typed has other axes.
    """
    found = job.meshes(program.axes, program.equal)
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
    jitters: Sequence[Jitter | None] = (None,),
    pacing: Pacing = PLAIN,
    progress: Progress | None = None,
) -> Comparison:
    """Simulate every candidate and rank them by median time, those that fit the memory first.

    Args:
        site: the cluster, with as many ranks as the job.
        layout: one layout for all, or auto.
        errors: stated relative errors of the model.
        faults: what is slow, down, busy or late; what has no path then cannot run.
        jitters: how compute times vary in each repeat; the median ranks.
        pacing: how the rounds of collectives follow each other.

    Of several algorithms, one whose flows crowd the links so that it takes long to simulate is left out, and said.
    """
    how: dict[str, Any] = {"faults": faults, "reroute_delay": reroute_delay, "jitters": jitters, "pacing": pacing}
    if len(programs) > 1:
        how["most"] = LONG
    todo, refused = candidates(programs, problem, job, layout)
    least = bound(problem, job.mesh({"cp": job.cp}), site)
    ranked: list[tuple[Candidate, Result]] = []
    for number, candidate in enumerate(todo):
        part = _part(progress, number, len(todo), str(candidate))
        try:
            schedule, runs = run(candidate, site, ways, progress=part, **how)
        except (CrowdedError, Inapplicable, NoPathError) as reason:
            refused.append(Refusal(candidate.algorithm, candidate.mesh.axes, str(reason)))
            continue
        ranked.append((candidate, result(candidate.algorithm, schedule, runs, site, least, errors or Errors())))
    ranked.sort(key=lambda pair: (not pair[1].fits, pair[1].time_s, pair[0].algorithm))
    return Comparison(tuple(_distinct(ranked)), tuple(_once(refused)), least)


def _part(progress: Progress | None, number: int, of: int, what: str) -> Callable[[float, float], None] | None:
    """The progress of one candidate of several, said at its start too."""
    if progress is None:
        return None
    progress(number / of, what)
    return lambda share, _: progress((number + share) / of, what)


def _once(refused: list[Refusal]) -> list[Refusal]:
    """Keep the first of those that an algorithm gives the same reason for."""
    first: dict[tuple[str, str], Refusal] = {}
    for one in refused:
        first.setdefault((one.algorithm, one.reason), one)
    return list(first.values())


def run(
    candidate: Candidate, site: Site, ways: Mapping[str, str] | None = None, **how: Any
) -> tuple[Schedule, Repeats]:
    """Trace and simulate one candidate; `how` is what else `repeated` takes."""
    schedule = candidate.schedule()
    return schedule, repeated(schedule, site, ways, **how)


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
    return found.layout, found.times_s, found.compute_s, found.sent_bytes, found.peak_bytes
