"""`ringloom compare`: rank algorithms for a cluster and a problem."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from algorithms.options import Asked, algorithms_from, algorithms_option, problem_options
from sim.commands.faulty import Faulty, assumptions, fault_options
from sim.commands.faulty import describe as faults_text
from sim.commands.progress import progress
from sim.commands.setup import Setup, Wanted, check_routing, set_up, simulator_options
from sim.commands.whatif import REPEATS, repeats_of
from topologies.options import Named, cluster_options

if TYPE_CHECKING:
    from sim.compare import Comparison
    from sim.faults import Fault

SCHEMA = "ringloom.compare/1"


class Broken(NamedTuple):
    """What is not as planned."""

    faults: tuple[Fault, ...]
    reroute_delay: float


@click.command("compare")
@cluster_options
@problem_options
@algorithms_option
@simulator_options
@fault_options
@click.option("--repeats", type=int, metavar="N", help=f"Seeds of ECMP: the median counts.  [default: {REPEATS}]")
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Show every mesh and layout in the table, not the best of each algorithm; --json has them all.",
)
def command(
    named: Named,
    asked: Asked,
    algorithms: str,
    wanted: Wanted,
    faulty: Faulty,
    repeats: int | None,
    every: bool,
) -> None:
    """Rank algorithms for a cluster and a problem, best first.

    Each algorithm of the phase is tried on every mesh of the job's ranks and in every layout worth trying.
    """
    programs = algorithms_from(algorithms)
    broken = Broken(*faulty.read())
    setup = set_up(asked, wanted, named)
    runs = repeats_of(repeats, setup.site.routing.varies, "--routing ecmp")

    from sim.compare import compare

    with progress("comparing") as report:
        found = compare(
            programs,
            setup.problem,
            setup.job,
            setup.site,
            layout=asked.layout,
            ways=setup.ways,
            errors=setup.errors,
            repeats=runs,
            progress=report,
            **broken._asdict(),
        )
    _check_ways(setup, found)
    check_routing(setup, wanted, repeats is not None)
    if not found.ranked:
        raise ValueError(f"no algorithm can run: {_reasons(found)}")
    if wanted.json:
        answer = record(setup, found, runs) | {"faults": [str(fault) for fault in broken.faults]}
        answer["assumptions"] = [*answer["assumptions"], *assumptions(*broken)]
        json.dump(answer, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        show(setup, found, runs, every, broken)
    if wanted.trace or wanted.timeline:
        _write_best(setup, found, wanted, broken)


def _check_ways(setup: Setup, found: Comparison) -> None:
    """Refuse a way for a collective that nothing here has."""
    used = {kind for one in found.results for kind in one.ways}
    for kind in setup.ways:
        if found.ranked and kind not in used:
            raise ValueError(f"--ways {kind} changes nothing: no algorithm that can run here has {kind}")


def _reasons(found: Comparison) -> str:
    """Why none can run, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for one in found.inapplicable:
        by_reason.setdefault(one.reason, []).append(one.algorithm)
    return "; ".join(f"{reason} ({', '.join(dict.fromkeys(names))})" for reason, names in by_reason.items())


def record(setup: Setup, found: Comparison, repeats: int) -> dict[str, Any]:
    """The answer as `--json` gives it."""
    from sim.commands.answer import head, scaled
    from sim.result import tied

    start = head(setup, found.results)
    if setup.site.routing.varies:
        start["routing"]["seeds"] = setup.site.routing.seeds(repeats)
    return {
        "schema": SCHEMA,
        **start,
        "bound": found.bound.times(setup.layers)._asdict(),
        "results": [scaled(setup, one).record() | {"tie": tied(one, found.results)} for one in found.results],
        "inapplicable": [one._asdict() for one in found.inapplicable],
    }


def show(setup: Setup, found: Comparison, repeats: int, every: bool, broken: Broken) -> None:
    """Print the answer for people."""
    from sim import report
    from sim.commands.answer import describe, scaled

    results = [scaled(setup, one) for one in found.results]
    best, tried = report.best_of_each(results)
    with report.printing(sys.stdout) as out:
        least = report.bound_text(found.bound.times(setup.layers), setup.model.form_text(setup.problem.phase))
        report.facts(out, describe(setup, repeats) | faults_text(broken.faults) | {"bound": least})
        out.print()
        shown = results if every else best
        if unfit := report.nothing_fits(results):
            out.print(f"{unfit}\n")
        out.print(report.ranking(shown, {} if every else tried, out.width))
        if ties := report.tie_text(shown):
            out.print(ties)
        out.print(report.LEGEND)
        for line in report.idle_axes(shown):
            out.print(line)
        if not all(one.fits for one in shown):
            out.print(report.UNFIT)
        if found.inapplicable:
            out.print("\ncannot run here:")
            report.refusals(out, found.inapplicable)
        report.assumptions(out, [*setup.assumptions(found.results), *assumptions(*broken)])


def _write_best(setup: Setup, found: Comparison, wanted: Wanted, broken: Broken) -> None:
    """Run the best once more, keeping every rank's times, and write the files asked for."""
    from sim.commands.answer import write_files
    from sim.compare import run

    candidate, best = found.ranked[0]
    site = setup.site.repeat(0 if best.routing_seed is None else best.routing_seed - setup.site.routing.seed)
    schedule, timeline = run(candidate, site, setup.ways, record="full", **broken._asdict())
    write_files(schedule, timeline, setup, wanted)
