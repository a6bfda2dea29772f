"""`ringloom compare`: rank algorithms for a cluster and a problem."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from algorithms.options import Asked, algorithms_from, algorithms_option, problem_options
from sim.commands.progress import progress
from sim.commands.setup import Setup, Wanted, set_up, simulator_options
from topologies.options import cluster_options

if TYPE_CHECKING:
    from sim.compare import Comparison

SCHEMA = "ringloom.compare/1"


@click.command("compare")
@cluster_options
@problem_options
@algorithms_option
@simulator_options
@click.option("--all", "every", is_flag=True, help="Show every mesh and layout, not the best of each algorithm.")
def command(
    cluster: str,
    nodes: int | None,
    gpus: int | None,
    asked: Asked,
    algorithms: str,
    wanted: Wanted,
    every: bool,
) -> None:
    """Rank algorithms for a cluster and a problem, best first.

    Each algorithm of the phase is tried on every mesh of the job's ranks and in every layout worth trying.
    """
    programs = algorithms_from(algorithms)
    setup = set_up(asked, wanted, cluster, nodes, gpus)

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
            progress=report,
        )
    _check_ways(setup, found)
    if not found.ranked:
        raise ValueError(f"no algorithm can run: {_reasons(found)}")
    if wanted.json:
        json.dump(record(setup, found), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        show(setup, found, every)
    if wanted.trace or wanted.timeline:
        _write_best(setup, found, wanted)


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


def record(setup: Setup, found: Comparison) -> dict[str, Any]:
    """The answer as `--json` gives it."""
    from sim.commands.answer import head, scaled

    return {
        "schema": SCHEMA,
        **head(setup),
        "bound": found.bound.times(setup.layers)._asdict(),
        "results": [scaled(setup, one).record() for one in found.results],
        "inapplicable": [one._asdict() for one in found.inapplicable],
    }


def show(setup: Setup, found: Comparison, every: bool) -> None:
    """Print the answer for people."""
    from sim import report
    from sim.commands.answer import describe, scaled

    results = [scaled(setup, one) for one in found.results]
    best, tried = report.best_of_each(results)
    with report.printing(sys.stdout) as out:
        report.facts(out, describe(setup) | {"bound": report.bound_text(found.bound.times(setup.layers))})
        out.print()
        out.print(report.ranking(results if every else best, {} if every else tried, out.width))
        ties = sum(one.ties(results[0]) for one in (results if every else best))
        if ties > 1:
            out.print(f"= the first {ties} cannot be told apart: their times overlap within the stated error")
        out.print(
            "sent (mean) and peak (most) are bytes of a rank, of attention only; a mesh has its slowest axis first;"
        )
        out.print("bound: time as a multiple of the bound; busiest: what is busy most of the time")
        if not all(one.fits for one in (results if every else best)):
            out.print("! more than the memory of the GPU: it cannot run as it is")
        if found.inapplicable:
            out.print("\ncannot run here:")
            report.refusals(out, found.inapplicable)
        report.assumptions(out, setup.assumptions)


def _write_best(setup: Setup, found: Comparison, wanted: Wanted) -> None:
    """Run the best once more, keeping every rank's times, and write the files asked for."""
    from sim.commands.answer import write_files
    from sim.compare import run

    candidate = found.ranked[0][0]
    schedule, timeline = run(candidate, setup.site, setup.ways, record="full")
    write_files(schedule, timeline, setup, wanted)
