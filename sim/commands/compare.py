"""`ringloom compare`: rank algorithms for a cluster and a problem."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from algorithms.options import Asked, algorithms_from, algorithms_option, problem_options
from sim.commands import whatif
from sim.commands.faulty import Faulty, fault_options
from sim.commands.progress import progress
from sim.commands.setup import Setup, Wanted, set_up, simulator_options
from sim.commands.whatif import WhatIf, Wishes, what_if_options
from topologies.options import cluster_options

if TYPE_CHECKING:
    from sim.compare import Comparison

SCHEMA = "ringloom.compare/1"


@click.command("compare")
@cluster_options
@problem_options
@algorithms_option
@simulator_options
@fault_options
@what_if_options
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Show every mesh and layout in the table, not the best of each algorithm; --json has them all.",
)
def command(
    cluster: str,
    nodes: int | None,
    gpus: int | None,
    asked: Asked,
    algorithms: str,
    wanted: Wanted,
    faulty: Faulty,
    wishes: Wishes,
    every: bool,
) -> None:
    """Rank algorithms for a cluster and a problem, best first.

    Each algorithm of the phase is tried on every mesh of the job's ranks and in every layout worth trying.
    """
    programs = algorithms_from(algorithms)
    asked_if = whatif.what_if(wishes, faulty)
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
            **vars(asked_if),
        )
    if not found.ranked:
        raise ValueError(f"no algorithm can run: {_reasons(found)}")
    notes = _notes(setup, asked_if, found)
    if wanted.json:
        answer = record(setup, found) | whatif.record(asked_if) | {"notes": notes}
        answer["assumptions"] = [*answer["assumptions"], *whatif.assumptions(asked_if, setup.layers)]
        json.dump(answer, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        show(setup, asked_if, found, every, notes)
    if wanted.trace or wanted.timeline:
        _write_best(setup, asked_if, found, wanted)


def _notes(setup: Setup, asked_if: WhatIf, found: Comparison) -> list[str]:
    """Which options change nothing for which algorithms.

    Raises:
        ValueError: one changes nothing for any.
    """
    used: dict[str, set[str]] = {}
    for one in found.results:
        used.setdefault(one.algorithm, set()).update(one.ways)
    for option in whatif.ignored(asked_if, setup.ways, set().union(*used.values())):
        why = f"{option} changes nothing: no algorithm that can run here has {_what(option)}"
        raise ValueError(next((one.reason for one in found.inapplicable if one.reason.startswith(option)), why))
    idle: dict[str, list[str]] = {}
    for algorithm, kinds in used.items():
        for option in whatif.ignored(asked_if, setup.ways, kinds):
            idle.setdefault(option, []).append(algorithm)
    return [f"{option} changes nothing for {', '.join(has)}: no {_what(option)} there" for option, has in idle.items()]


def _what(option: str) -> str:
    """The collective that an option is for."""
    return option.partition(" ")[2] or "collective but permute"


def _reasons(found: Comparison) -> str:
    """Why none can run, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for one in found.inapplicable:
        by_reason.setdefault(one.reason, []).append(one.algorithm)
    return "; ".join(f"{reason} ({', '.join(dict.fromkeys(names))})" for reason, names in by_reason.items())


def record(setup: Setup, found: Comparison) -> dict[str, Any]:
    """The answer as `--json` gives it."""
    from sim.commands.answer import head, scaled
    from sim.result import tied

    return {
        "schema": SCHEMA,
        **head(setup, found.results),
        "bound": found.bound.times(setup.layers)._asdict(),
        "results": [scaled(setup, one).record() | {"tie": tied(one, found.results)} for one in found.results],
        "inapplicable": [one._asdict() for one in found.inapplicable],
    }


def show(setup: Setup, asked_if: WhatIf, found: Comparison, every: bool, notes: list[str]) -> None:
    """Print the answer for people."""
    from sim import report
    from sim.commands.answer import describe, scaled

    results = [scaled(setup, one) for one in found.results]
    best, tried = report.best_of_each(results)
    with report.printing(sys.stdout) as out:
        least = report.bound_text(found.bound.times(setup.layers), setup.model.form_text(setup.problem.phase))
        varies = {"varies": f"{how}; their median ranks"} if (how := whatif.jitter_text(asked_if)) else {}
        report.facts(out, describe(setup) | whatif.describe(asked_if) | varies | {"bound": least})
        out.print()
        shown = results if every else best
        if unfit := report.nothing_fits(results):
            out.print(f"{unfit}\n")
        out.print(report.ranking(shown, {} if every else tried, out.width))
        if ties := report.tie_text(shown):
            out.print(ties)
        out.print(report.LEGEND)
        if report.varied(shown):
            out.print(report.BAND)
        for line in (*report.idle_axes(shown), *notes):
            out.print(line)
        if not all(one.fits for one in shown):
            out.print(report.UNFIT)
        if found.inapplicable:
            out.print("\ncannot run here:")
            report.refusals(out, found.inapplicable)
        report.assumptions(out, [*setup.assumptions(found.results), *whatif.assumptions(asked_if, setup.layers)])


def _write_best(setup: Setup, asked_if: WhatIf, found: Comparison, wanted: Wanted) -> None:
    """Run the best once more, in its middle repeat, keeping every rank's times, and write the files asked for."""
    from sim.commands.answer import write_files
    from sim.compare import run
    from sim.repeats import middle

    candidate, best = found.ranked[0]
    how = vars(asked_if) | {"jitters": asked_if.jitters[middle(best.times_s) :][:1]}
    schedule, runs = run(candidate, setup.site, best.ways, record="full", **how)
    write_files(schedule, runs.timeline, setup, wanted)
