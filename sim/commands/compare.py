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
from topologies.options import Named, cluster_options

if TYPE_CHECKING:
    from sim.candidates import Candidate
    from sim.compare import Comparison
    from sim.frameworks.rules import Framework

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
@click.option("--framework", metavar="NAME", help="Try only what this framework has, as transformer_engine or vllm.")
def command(
    named: Named,
    asked: Asked,
    algorithms: str,
    wanted: Wanted,
    faulty: Faulty,
    wishes: Wishes,
    every: bool,
    framework: str | None,
) -> None:
    """Rank algorithms for a cluster and a problem, best first.

    Each algorithm of the phase is tried on every mesh of the job's ranks, with the mesh's axes in every order, and in
    every layout worth trying. For the best, and what ties with it, the answer says what to set in which framework.
    """
    from sim.frameworks import rules

    programs = algorithms_from(algorithms)
    only = None if framework is None else rules.find(framework)
    setup = set_up(asked, wanted, named)
    asked_if = whatif.what_if(wishes, faulty, setup.site.routing)

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
            framework=only,
            kinds=setup.kinds if setup.per == "model" else (),
            progress=report,
            **asked_if.runs,
        )
    if not found.ranked:
        raise ValueError(f"no algorithm can run: {_reasons(found)}")
    asked_if = whatif.used(asked_if, wishes, wanted.routing, setup.site)
    notes = _notes(setup, asked_if, found)
    if wanted.json:
        answer = record(setup, asked_if, found) | {"notes": notes}
        answer["framework"] = only.name if only else None
        answer["assumptions"] = [*answer["assumptions"], *whatif.assumptions(asked_if, setup.layers)]
        json.dump(answer, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        show(setup, asked_if, found, every, [*notes, *left_out(found)], only)
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


def record(setup: Setup, asked_if: WhatIf, found: Comparison) -> dict[str, Any]:
    """The answer as `--json` gives it."""
    from sim.commands.answer import head, scaled
    from sim.frameworks.shown import record as typed
    from sim.frameworks.shown import settings
    from sim.result import tied

    results = [
        {**scaled(setup, one).record(), "tie": tied(one, found.results), "settings": typed(settings(candidate))}
        for candidate, one in found.ranked
    ]
    return {
        "schema": SCHEMA,
        **head(setup, found.results, asked_if.seeds),
        **whatif.record(asked_if),
        "bound": found.bound._asdict(),
        "results": results,
        "inapplicable": [one._asdict() for one in found.inapplicable],
        "partly": [one._asdict() for one in found.partly],
        "untried": dict(found.untried),
    }


def _winners(found: Comparison) -> list[Candidate]:
    """The best candidate, and the best of each other algorithm that ties with it."""
    best: dict[str, Candidate] = {}
    for candidate, one in found.ranked:
        if one is found.ranked[0][1] or one.ties(found.ranked[0][1]):
            best.setdefault(candidate.algorithm, candidate)
    return list(best.values())


def left_out(found: Comparison) -> list[str]:
    """What was not tried, or did not run, beside the algorithms that cannot run at all."""
    from sim import report

    return [*report.partly(found.partly), *report.untried(found.untried)]


def show(
    setup: Setup, asked_if: WhatIf, found: Comparison, every: bool, notes: list[str], only: Framework | None
) -> None:
    """Print the answer for people."""
    from sim import report
    from sim.commands.answer import describe, scaled
    from sim.frameworks.shown import lines

    results = [scaled(setup, one) for one in found.results]
    best, tried = report.best_of_each(results)
    with report.printing(sys.stdout) as out:
        least = report.bound_text(found.bound, setup.model.form_text(setup.problem.phase))
        varies = {"varies": f"{how}; their median ranks"} if (how := whatif.varying_text(asked_if)) else {}
        repeats = len(asked_if.jitters)
        report.facts(out, describe(setup, repeats) | whatif.describe(asked_if) | varies | {"bound": least})
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
        out.print("\nwhat to set:")
        for lead, text in lines(_winners(found), only):
            report.bullet(out, lead, text)
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
    number = middle(best.times_s)
    how = asked_if.runs | {"jitters": asked_if.jitters[number : number + 1]}
    schedule, runs = run(candidate, setup.site.repeat(number), best.ways, record="full", **how)
    write_files(schedule, runs.timeline, setup, wanted)
