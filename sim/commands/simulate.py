"""`ringloom simulate`: one algorithm in depth."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from algorithms.options import Asked, algorithms_from, problem_options
from sim.commands.progress import progress
from sim.commands.setup import Setup, Wanted, set_up, simulator_options
from topologies.options import cluster_options

if TYPE_CHECKING:
    from algorithms.ir import Schedule
    from algorithms.ir.timeline import Timeline
    from sim.bound import Bound
    from sim.compare import Candidate
    from sim.result import Result

SCHEMA = "ringloom.simulate/1"


@click.command("simulate")
@click.argument("algorithm")
@cluster_options
@problem_options
@simulator_options
@click.option("--program", is_flag=True, help="Print the schedule too.")
def command(
    algorithm: str,
    cluster: str,
    nodes: int | None,
    gpus: int | None,
    asked: Asked,
    wanted: Wanted,
    program: bool,
) -> None:
    """Look at ALGORITHM in depth: where its time, its bytes and its memory go.

    Without --mesh, an algorithm of several axes gets the mesh nearest to square; with --layout auto, the first of
    its layouts under a causal mask.
    """
    programs = algorithms_from(algorithm)
    if len(programs) != 1:
        raise ValueError(f"simulate takes one algorithm, got {algorithm}; compare ranks several")
    setup = set_up(asked, wanted, cluster, nodes, gpus)
    candidate = choose(programs, setup, asked.layout)

    from sim.bound import bound
    from sim.compare import run
    from sim.result import result

    with progress("simulating") as report:
        schedule, timeline = run(
            candidate,
            setup.site,
            setup.ways,
            record="full" if wanted.trace else "auto",
            progress=lambda share, seconds: report(share, f"{seconds * 1e3:.3g} ms simulated"),
        )
    least = bound(candidate.problem, candidate.mesh, setup.site)
    found = result(candidate.algorithm, schedule, timeline, setup.site, least, setup.errors)
    if wanted.json:
        json.dump(record(setup, found, schedule, timeline, least), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        show(setup, found, schedule, timeline, least, program)

    from sim.commands.answer import write_files

    write_files(schedule, timeline, setup, wanted)


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
        **head(setup),
        "bound": least.times(setup.layers)._asdict(),
        "results": [scaled(setup, found).record()],
        "inapplicable": [],
        "ops": [one._asdict() for one in by_kind(schedule, timeline)],
        "hot_links": [dict(link) for link in timeline.hot_links],
        "peak": peak,
    }


def show(setup: Setup, found: Result, schedule: Schedule, timeline: Timeline, least: Bound, program: bool) -> None:
    """Print the answer for people."""
    from sim import report
    from sim.commands.answer import describe, scaled
    from sim.commands.depth import effective, kinds, links, memory, times

    one = scaled(setup, found)
    with report.printing(sys.stdout) as out:
        report.facts(out, describe(setup) | effective(found))
        out.print()
        report.facts(out, times(one, least.times(setup.layers)))
        out.print()
        out.print(kinds(schedule, timeline))
        for part in (links(timeline), memory(schedule, timeline)):
            out.print()
            out.print(part)
        if program:
            out.print(f"\n{schedule}", soft_wrap=True)
        report.assumptions(out, setup.assumptions)
