"""`ringloom simulate`: one algorithm in depth."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from algorithms.options import Asked, algorithms_from, problem_options
from sim.commands import whatif
from sim.commands.faulty import Faulty, fault_options
from sim.commands.progress import progress
from sim.commands.setup import Setup, Wanted, set_up, simulator_options
from sim.commands.whatif import WhatIf, Wishes, what_if_options
from topologies.options import Named, cluster_options

if TYPE_CHECKING:
    from algorithms.ir import Schedule
    from algorithms.ir.timeline import Timeline
    from sim.bound import Bound
    from sim.candidates import Candidate
    from sim.repeats import Repeats
    from sim.result import Result

SCHEMA = "ringloom.simulate/1"


@click.command("simulate")
@click.argument("algorithm")
@cluster_options
@problem_options
@simulator_options
@fault_options
@what_if_options
@click.option("--program", is_flag=True, help="Print the schedule too.")
def command(
    algorithm: str,
    named: Named,
    asked: Asked,
    wanted: Wanted,
    faulty: Faulty,
    wishes: Wishes,
    program: bool,
) -> None:
    """Look at ALGORITHM in depth: where its time, its bytes and its memory go.

    Without --mesh, an algorithm of several axes gets the mesh nearest to square of those that it can run on; with
    --layout auto, the first of its layouts under a causal mask.
    """
    programs = algorithms_from(algorithm)
    if len(programs) != 1:
        raise ValueError(f"simulate takes one algorithm, got {algorithm}; compare ranks several")
    setup = set_up(asked, wanted, named)
    asked_if = whatif.what_if(wishes, faulty, setup.site.routing)
    if setup.per == "model" and len(setup.kinds) > 1:
        raise ValueError(f"simulate runs one layer, and {setup.kinds_text}: compare --per model adds them up")
    candidate, schedule = choose(programs, setup, asked.layout)

    from sim.bound import bound
    from sim.repeats import middle
    from sim.result import result

    runs = run_all(schedule, setup, asked_if, "full" if wanted.trace else "auto")
    asked_if = whatif.used(asked_if, wishes, wanted.routing, setup.site)
    timeline, setup = runs.timeline, replace(setup, site=setup.site.repeat(middle(runs.times)))
    least = bound(candidate.problem, candidate.mesh, setup.site)
    found = result(candidate.algorithm, schedule, runs, setup.site, least, setup.errors)
    shown = Shown(setup, asked_if)
    if wanted.json:
        answer = record(shown, found, schedule, timeline, least)
        answer["assumptions"] = [*answer["assumptions"], *whatif.assumptions(asked_if, setup.layers)]
        json.dump(answer, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        show(shown, found, schedule, timeline, least, program)

    from sim.commands.answer import write_files

    write_files(schedule, timeline, setup, wanted)


class Shown(NamedTuple):
    """What was asked."""

    setup: Setup
    asked_if: WhatIf


def say(text: str) -> None:
    """Say something on stderr."""
    print(f"ringloom: {text}", file=sys.stderr, flush=True)


def run_all(schedule: Schedule, setup: Setup, asked_if: WhatIf, how: str) -> Repeats:
    """Simulate a schedule, once or for each repeat."""
    from sim.repeats import repeated

    whatif.check_used(asked_if, setup.ways, schedule)
    with progress("simulating") as report:
        return repeated(
            schedule,
            setup.site,
            setup.ways,
            record=how,
            path=True,
            progress=lambda share, seconds: report(share, f"{seconds * 1e3:.3g} ms simulated"),
            notice=say,
            **asked_if.runs,
        )


def choose(programs: dict[str, Any], setup: Setup, layout: str) -> tuple[Candidate, Schedule]:
    """The candidate that the options mean, traced: of several meshes that can run it, the one nearest to square.

    Raises:
        Inapplicable: the algorithm has no program for this phase or mesh, or can run on none; why not on the squarest.
    """
    from algorithms.ir import Inapplicable
    from sim.candidates import candidates

    found, refused = candidates(programs, setup.problem, setup.job, layout)
    if not found:
        raise Inapplicable(f"{refused[0].algorithm} cannot run: {refused[0].reason}")
    first = [one for one in found if one.problem.layout == found[0].problem.layout]
    first.sort(key=lambda one: max(one.mesh.axes[a] for a in one.program.axes))
    reasons: list[Inapplicable] = []
    for one in first:
        try:
            return one, one.schedule()
        except Inapplicable as reason:
            reasons.append(reason)
    raise reasons[0]


def record(shown: Shown, found: Result, schedule: Schedule, timeline: Timeline, least: Bound) -> dict[str, Any]:
    """The answer as `--json` gives it."""
    from sim.commands.answer import head, scaled
    from sim.summary import at_peak, by_kind

    setup, asked_if = shown
    rank, op, held = at_peak(schedule, timeline)
    peak = {"rank": rank, "op": str(op.kind), "op_id": op.id, "live": [one._asdict() for one in held]}
    return {
        "schema": SCHEMA,
        **head(setup, [found], asked_if.seeds),
        "bound": least.times(setup.layers)._asdict(),
        "results": [scaled(setup, found).record() | {"tie": False}],
        "inapplicable": [],
        "ops": [one._asdict() for one in by_kind(schedule, timeline)],
        "hot_links": [dict(link) for link in timeline.hot_links],
        "peak": peak,
        "critical_path": timeline.about.get("critical_path"),
        **whatif.record(asked_if),
    }


def show(shown: Shown, found: Result, schedule: Schedule, timeline: Timeline, least: Bound, program: bool) -> None:
    """Print the answer for people."""
    from sim import report
    from sim.commands.answer import describe, scaled
    from sim.commands.depth import effective, kinds, links, memory, path, times, varies

    setup, asked_if = shown
    one = scaled(setup, found)
    with report.printing(sys.stdout) as out:
        report.facts(out, describe(setup) | effective(found))
        out.print()
        more = whatif.describe(asked_if) | varies(one, whatif.varying_text(asked_if))
        report.facts(out, more | times(one, least.times(setup.layers), setup.model.form_text(setup.problem.phase)))
        out.print()
        out.print(kinds(schedule, timeline))
        for part in (links(timeline), path(timeline), memory(schedule, timeline)):
            out.print()
            out.print(part)
        if program:
            out.print(f"\n{schedule}", soft_wrap=True)
        report.assumptions(out, [*setup.assumptions([found]), *whatif.assumptions(asked_if, setup.layers)])
