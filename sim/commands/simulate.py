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
from sim.commands.setup import Setup, Wanted, check_routing, set_up, simulator_options
from sim.commands.whatif import WhatIf, Wishes, what_if_options
from topologies.options import Named, cluster_options

if TYPE_CHECKING:
    from algorithms.ir import Schedule
    from algorithms.ir.timeline import Timeline
    from sim.bound import Bound
    from sim.compare import Candidate
    from sim.result import Result
    from sim.simulate import Site

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

    Without --mesh, an algorithm of several axes gets the mesh nearest to square; with --layout auto, the first of
    its layouts under a causal mask.
    """
    programs = algorithms_from(algorithm)
    if len(programs) != 1:
        raise ValueError(f"simulate takes one algorithm, got {algorithm}; compare ranks several")
    setup = set_up(asked, wanted, named)
    asked_if = whatif.what_if(wishes, faulty, setup.site.routing)
    candidate = choose(programs, setup, asked.layout)
    sites = [setup.site.repeat(number) for number in range(len(asked_if.jitters))]

    from sim.bound import bound
    from sim.result import result
    from sim.routing import Routing

    schedule, timelines = run_all(candidate, sites, setup.ways, asked_if, "full" if wanted.trace else "auto")
    check_routing(setup, wanted, wishes.repeats is not None and wishes.jitter is None)
    if not setup.site.network.choices[0]:
        asked_if = replace(asked_if, routing=Routing())
    times = [one.makespan for one in timelines]
    middle = sorted(range(len(times)), key=lambda k: times[k])[(len(times) - 1) // 2]
    timeline, setup = timelines[middle], replace(setup, site=sites[middle])
    least = bound(candidate.problem, candidate.mesh, setup.site)
    found = result(candidate.algorithm, schedule, timeline, setup.site, least, setup.errors)
    if wanted.json:
        answer = record(setup, found, schedule, timeline, least)
        answer["assumptions"] = [*answer["assumptions"], *whatif.assumptions(asked_if)]
        json.dump({**answer, **whatif.record(asked_if, times)}, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        show(Shown(setup, asked_if, times), found, schedule, timeline, least, program)

    from sim.commands.answer import write_files

    write_files(schedule, timeline, setup, wanted)


class Shown(NamedTuple):
    """What was asked, and the time of each repeat."""

    setup: Setup
    asked_if: WhatIf
    times: list[float]


def say(text: str) -> None:
    """Say something on stderr."""
    print(f"ringloom: {text}", file=sys.stderr, flush=True)


def run_all(
    candidate: Candidate, sites: list[Site], ways: dict[str, str], asked_if: WhatIf, how: str
) -> tuple[Schedule, list[Timeline]]:
    """Simulate a candidate, once or for each repeat, which has a site of its own; once where none can differ."""
    from sim.compare import fastest

    schedule = candidate.schedule()
    whatif.check_used(asked_if, ways, schedule)
    timelines = []
    with progress("simulating") as report:
        for number, (jitter, site) in enumerate(zip(asked_if.jitters, sites, strict=True)):

            def note(share: float, seconds: float, number: int = number) -> None:
                report((number + share) / len(sites), f"{seconds * 1e3:.3g} ms simulated")

            timeline = fastest(
                schedule,
                site,
                ways,
                record=how,
                path=True,
                progress=note,
                faults=asked_if.faults,
                reroute_delay=asked_if.reroute_delay,
                jitter=jitter,
                pacing=asked_if.pacing,
                notice=None if number else say,
            )
            timelines.append(timeline)
            if jitter is None and not site.network.choices[0]:
                break  # no seed would change a route
    return schedule, timelines


def choose(programs: dict[str, Any], setup: Setup, layout: str) -> Candidate:
    """The candidate that the options mean: of several meshes, the one nearest to square.

    Raises:
        Inapplicable: the algorithm has no program for this phase or mesh.
    """
    from algorithms.ir import Inapplicable
    from sim.compare import candidates

    found, refused = candidates(programs, setup.problem, setup.job, layout)
    if not found:
        raise Inapplicable(f"{refused[0].algorithm} cannot run: {refused[0].reason}")
    first = [one for one in found if one.problem.layout == found[0].problem.layout]
    return min(first, key=lambda one: max(one.mesh.axes[a] for a in one.program.axes))


def record(setup: Setup, found: Result, schedule: Schedule, timeline: Timeline, least: Bound) -> dict[str, Any]:
    """The answer as `--json` gives it."""
    from sim.commands.answer import head, scaled
    from sim.summary import at_peak, by_kind

    rank, op, held = at_peak(schedule, timeline)
    peak = {"rank": rank, "op": str(op.kind), "op_id": op.id, "live": [one._asdict() for one in held]}
    return {
        "schema": SCHEMA,
        **head(setup, [found]),
        "bound": least.times(setup.layers)._asdict(),
        "results": [scaled(setup, found).record() | {"tie": False}],
        "inapplicable": [],
        "ops": [one._asdict() for one in by_kind(schedule, timeline)],
        "hot_links": [dict(link) for link in timeline.hot_links],
        "peak": peak,
        "critical_path": timeline.about.get("critical_path"),
    }


def show(shown: Shown, found: Result, schedule: Schedule, timeline: Timeline, least: Bound, program: bool) -> None:
    """Print the answer for people."""
    from sim import report
    from sim.commands.answer import describe, scaled
    from sim.commands.depth import effective, kinds, links, memory, path, times

    setup, asked_if, repeats = shown
    one = scaled(setup, found)
    with report.printing(sys.stdout) as out:
        report.facts(out, describe(setup) | effective(found))
        out.print()
        more = whatif.describe(asked_if, [time * setup.layers for time in repeats])
        report.facts(out, more | times(one, least.times(setup.layers), setup.model.form_text(setup.problem.phase)))
        out.print()
        out.print(kinds(schedule, timeline))
        for part in (links(timeline), path(timeline), memory(schedule, timeline)):
            out.print()
            out.print(part)
        if program:
            out.print(f"\n{schedule}", soft_wrap=True)
        report.assumptions(out, [*setup.assumptions([found]), *whatif.assumptions(asked_if)])
