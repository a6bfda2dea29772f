"""Compare: every algorithm of a phase, on every mesh of the job and in every layout worth trying, best first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from algorithms.ir import Attention, Inapplicable, Schedule
from algorithms.ir.job import Job
from sim.bound import Bound, bound
from sim.candidates import Candidate, Kinds, Programs, Refusal, candidates, of_framework
from sim.estimate import LONG
from sim.faults import REROUTE_DELAY, Fault
from sim.frameworks.rules import Framework
from sim.jitter import Jitter
from sim.pacing import PLAIN, Pacing
from sim.repeats import Progress as Part
from sim.repeats import Repeats, repeated
from sim.result import Errors, Result, result
from sim.simulate import Site
from sim.trials import Pair, Progress, Trials, other_orders, ranked
from sim.whole import total, total_bound


@dataclass(frozen=True)
class Comparison:
    """Results, best first but what does not fit last, with their candidates, and the bound of all.

    Attributes:
        inapplicable: algorithms that cannot run on any mesh, each with its reasons.
        partly: meshes and layouts on which algorithms that run elsewhere cannot.
        untried: how many orders of its axes were left out, by algorithm.
    """

    ranked: tuple[Pair, ...]
    inapplicable: tuple[Refusal, ...]
    partly: tuple[Refusal, ...]
    untried: Mapping[str, int]
    bound: Bound

    @property
    def results(self) -> list[Result]:
        """The results alone."""
        return [found for _, found in self.ranked]


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
    framework: Framework | None = None,
    kinds: Kinds = (),
    progress: Progress | None = None,
) -> Comparison:
    """Simulate every candidate and rank them by median time, those that fit the memory first.

    Args:
        site: the cluster, with as many ranks as the job.
        layout: one layout for all, or auto.
        errors: stated relative errors of the model.
        faults: what is slow, down, busy or late; what has no path then cannot run.
        jitters: how compute times vary in each repeat, which takes a seed of its own where a hash routes; the median
            ranks.
        pacing: how the rounds of collectives follow each other.
        framework: try only what it has.
        kinds: of a whole model, how many layers there are of each kind and the problem of one; results are their sums,
            all layers run by the same algorithm on the same mesh. Empty: one layer, `problem`.
    """
    how: dict[str, Any] = {"faults": faults, "reroute_delay": reroute_delay, "jitters": jitters, "pacing": pacing}
    if len(programs) > 1:
        how["most"] = LONG
    mesh, each = job.mesh({"cp": job.cp}), kinds or [(1, problem)]
    least = [bound(one, mesh, site) for _, one in each]

    def cost(candidate: Candidate, part: Part | None) -> Result:
        found: list[Result] = []
        for (number, layer), lower in zip(candidate.layers, least, strict=True):
            of_kind = part and partial(_within, part, len(found), len(each))
            try:
                schedule, runs = run(layer, site, ways, progress=of_kind, **how)
            except Inapplicable as reason:
                which = f"{number} layers with mask {layer.problem.mask.short}: " if len(each) > 1 else ""
                raise Inapplicable(f"{which}{reason}") from reason
            found.append(result(candidate.algorithm, schedule, runs, site, lower, errors or Errors()))
        return total(kinds, found) if kinds else found[0]

    todo, refused = candidates(programs, problem, job, layout, kinds)
    trials = Trials(cost, progress)
    untried: dict[str, int] = {}
    if framework is None:
        trials.run(todo, later=len({order.mesh for one in todo for order in one.orders(job)}))
        orders, untried = other_orders(trials.done, job)
        trials.run(orders)
    else:
        todo, lacking = of_framework(framework, todo, job)
        refused += lacking
        trials.run(todo)
    never, partly = _split([*refused, *trials.refused], trials.done)
    return Comparison(ranked(trials.done), never, partly, untried, total_bound(each, least))


def _within(part: Part, number: int, of: int, share: float, seconds: float) -> None:
    """Pass on the progress of one of several parts."""
    part((number + share) / of, seconds)


def _split(refused: Sequence[Refusal], done: Iterable[Pair]) -> tuple[tuple[Refusal, ...], tuple[Refusal, ...]]:
    """Refusals of algorithms that cannot run at all, each reason once, and of meshes of those that can elsewhere."""
    runs = {candidate.algorithm for candidate, _ in done}
    never: dict[tuple[str, str], Refusal] = {}
    partly: dict[tuple[object, ...], Refusal] = {}
    for one in refused:
        if one.algorithm in runs:
            partly.setdefault((one.algorithm, *(one.mesh or {}).items(), one.reason), one)
        else:
            never.setdefault((one.algorithm, one.reason), one)
    return tuple(never.values()), tuple(partly.values())


def run(
    candidate: Candidate, site: Site, ways: Mapping[str, str] | None = None, **how: Any
) -> tuple[Schedule, Repeats]:
    """Trace and simulate one candidate; `how` is what else `repeated` takes."""
    schedule = candidate.schedule()
    return schedule, repeated(schedule, site, ways, **how)
