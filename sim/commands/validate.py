"""`ringloom validate`: what was measured, its replay, and what was predicted, side by side."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from algorithms.options import as_record
from sim.commands import version
from sim.commands.pictures import Wanted as Pictures
from topologies.options import Named, size_options

if TYPE_CHECKING:
    from rich.console import Console

    from sim.beside import Beside, Row
    from sim.recorded import Recorded
    from sim.simulate import Site

SCHEMA = "ringloom.validate/1"
UNSTEADY = 1.5  # p90 / p10 beyond which runs are called unsteady
NAMED = 0.05  # of all differences: kinds of less are not named
COLUMNS = (("stream", "left"), ("op", "left"), ("count", "right"), ("measured", "right"), ("share", "right"))
PREDICTED = (("predicted", "right"), ("share", "right"), ("ratio", "right"), ("difference", "right"))


@dataclass(frozen=True)
class Wanted:
    """What the options said."""

    measured: str
    algorithm: str | None
    compute_error: float
    comm_error: float
    per_op: bool
    json: bool


_OPTIONS = (
    click.option("--measured", required=True, metavar="FILE", help="A timeline, as `ringloom-run time --timeline`."),
    click.option("--algorithm", metavar="NAME|FILE.py:NAME", help="What it is of, in place of what the file says."),
    click.option("--compute-error", type=float, default=0.10, show_default=True, help="Stated error of compute time."),
    click.option(
        "--comm-error", type=float, default=0.25, show_default=True, help="Stated error of exposed communication."
    ),
    click.option("--per-op", is_flag=True, help="A row for each op."),
    click.option("--json", is_flag=True, help="Print JSON on stdout, and nothing else there."),
)

_PICTURES = (
    click.option("--png", metavar="FILE", help="Draw both runs, one above the other."),
    click.option("--svg", metavar="FILE", help="The same, with a tip on each op."),
    click.option("--html", metavar="FILE", help="The same as one page, with the table."),
)


@click.command("validate")
@as_record("wanted", Wanted, _OPTIONS)
@click.option(
    "--cluster",
    metavar="FILE|NAME",
    help="Predict for it: what `ringloom-run calibrate` wrote, or any cluster.  [default: replay only]",
)
@size_options
@as_record("pictures", Pictures, _PICTURES)
def command(wanted: Wanted, named: Named, pictures: Pictures) -> None:
    """Put a measured timeline beside its replay, and beside what a cluster's costs predict.

    The replay takes what each op took itself, waiting left out, and lets the engine put the run together again. The
    prediction simulates the same schedule. The first tests how runs are composed, the second the costs too.
    """
    files = pictures.files()

    from sim.beside import Beside
    from sim.recorded import recorded
    from sim.result import Errors

    errors = Errors(wanted.compute_error, wanted.comm_error).check()
    found = Beside.of(recorded(wanted.measured, wanted.algorithm))
    if found.recorded.timeline.clock != "measured":
        say(f"{wanted.measured} was simulated, not measured")
    site = _site(named, found.recorded)
    if site is not None:
        found = found.predicted(site, errors)
    if files:
        _draw(found, files)
    if wanted.json:
        json.dump(record(found, wanted, site), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        show(found, wanted, site)


def _draw(found: Beside, files: dict[str, str]) -> None:
    from sim.pictures.lanes import Lanes, write

    lanes = Lanes.of(found)
    for form, path in files.items():
        write(lanes, path, form)
        say(f"{form} {path}" + (f": {lanes.kept}" if lanes.kept else ""))


def say(text: str) -> None:
    """Say something on stderr."""
    print(f"ringloom: {text}", file=sys.stderr, flush=True)


def _site(named: Named, recorded: Recorded) -> Site | None:
    """The cluster to predict for, if one was named; of another machine than was measured, that is said."""
    if named.cluster is None:
        said = [name for name in ("nodes", "gpus", "fabric", "gpu", "nic") if getattr(named, name) is not None]
        if said:
            raise ValueError(f"--{said[0]} is of a cluster: say --cluster too")
        return None

    from algorithms.ir.environment import difference
    from sim.simulate import Site

    graph, _ = named.build()
    about = graph.graph.get("measured", {}).get("environment", {})
    if other := difference(about, recorded.environment):
        say(f"{named.cluster} was measured on another machine than {recorded.schedule.name} ran on: {other}")
    return Site(graph)


def record(found: Beside, wanted: Wanted, site: Site | None) -> dict[str, Any]:
    """The answer as `--json` gives it."""
    recorded, there = found.recorded, found.prediction
    whole, predicted = recorded.timeline.makespan, there.timeline.makespan if there else None
    schedule = recorded.schedule
    return {
        "schema": SCHEMA,
        "ringloom": version(),
        "algorithm": schedule.name,
        "mesh": dict(schedule.mesh.axes),
        "problem": schedule.problem.describe(),
        "measured": {
            "file": wanted.measured,
            "clock": recorded.timeline.clock,
            "ways": "native" if recorded.ways is None else dict(recorded.ways),
            "runs": len(recorded.runs) or 1,
            "median_s": recorded.band.median,
            "p10_s": recorded.band.p10,
            "p90_s": recorded.band.p90,
            "shown_s": whole,
            "environment": dict(recorded.environment),
        },
        "replay": {
            "seconds": found.replayed.makespan,
            "error": found.error(found.replayed.makespan),
            "of_medians_s": found.of_medians,
            "one_thing_at_a_time": found.measured.took.by_line,
            "transfers": dict(found.meets),
        },
        "prediction": None
        if there is None or site is None
        else {
            "cluster": site.name,
            "seconds": predicted,
            "error": found.error(there.timeline.makespan),
            "low_s": there.low,
            "high_s": there.high,
            "measured_compute_predicted_transfers_s": there.mixed,
            "assumptions": list(there.assumptions),
        },
        "kinds": [row.record(whole, predicted) for row in found.by_kind()],
        "ops": [row.record(whole, predicted) for row in found.by_op()] if wanted.per_op else [],
    }


def show(found: Beside, wanted: Wanted, site: Site | None) -> None:
    """Print the answer for people."""
    from sim import report

    with report.printing(sys.stdout) as out:
        report.facts(out, _facts(found, wanted, site))
        out.print()
        rows = found.by_op() if wanted.per_op else found.by_kind()
        _table(out, found, rows)
        if found.prediction is not None:
            out.print()
            report.bullet(out, "the difference: ", _difference(found.by_kind()))
            report.assumptions(out, list(found.prediction.assumptions))


def _facts(found: Beside, wanted: Wanted, site: Site | None) -> dict[str, str]:
    from sim.report import mesh_text

    recorded, there = found.recorded, found.prediction
    problem, about = recorded.schedule.problem, recorded.environment
    ways = "native" if recorded.ways is None else "by our rounds"
    facts = {
        "run": f"{recorded.schedule.name} {problem.phase}, mesh {mesh_text(recorded.schedule.mesh.axes)}, layout "
        f"{problem.layout}, {problem.query_len:,} queries of {problem.key_len:,} keys, mask {problem.mask.short}, "
        f"{problem.heads}/{problem.kv_heads} heads of {problem.head_dim}, {problem.dtype}, collectives {ways}",
        "machine": ", ".join(str(about[name]) for name in ("cpu", "mpi", "pinned", "date") if about.get(name)),
        "measured": _measured(recorded),
        "replay": f"{_off(found, found.replayed.makespan)}: {_how(found)}",
    }
    if found.of_medians is not None:
        facts["medians"] = f"{_off(found, found.of_medians)}: the same with each compute op's median over the runs"
    if there is not None and site is not None:
        facts["predicted"] = (
            f"{_off(found, there.timeline.makespan)}: simulated on {site.name}, stated error {_ms(there.low)} to "
            f"{_ms(there.high)}"
        )
        facts["mixed"] = f"{_off(found, there.mixed)}: compute as measured, transfers as predicted"
    return {name: text for name, text in facts.items() if text}


def _measured(recorded: Recorded) -> str:
    band, runs = recorded.band, len(recorded.runs)
    if not runs:
        return f"{_ms(band.median)}, one run"
    text = f"{_ms(band.median)}, the median of {runs} runs (p10 {_ms(band.p10)}, p90 {_ms(band.p90)})"
    return text + (f"; unsteady, p90 is {band.p90 / band.p10:.2g} times p10" if band.p90 > UNSTEADY * band.p10 else "")


def _how(found: Beside) -> str:
    """How ranks worked, and transfers met, in words."""
    ranks = "ranks do one thing at a time" if found.measured.took.by_line else "streams run beside each other"
    said = {
        "waited": "went on when both ends waited",
        "posted": "when both had posted" if found.measured.took.by_line else "went on when all had started",
        "alone": "waited for nobody",
    }
    meets = [f"{number} {said[name]}" for name, number in sorted(found.meets.items())]
    return f"{ranks}; of its transfers {', '.join(meets)}" if meets else ranks


def _off(found: Beside, seconds: float) -> str:
    return f"{_ms(seconds)}, {found.error(seconds):+.1%}"


def _ms(seconds: float) -> str:
    from topologies.units import format_seconds

    return format_seconds(seconds)


def _table(out: Console, found: Beside, rows: list[Row]) -> None:
    from sim import report
    from topologies.units import format_seconds

    whole, there = found.recorded.timeline.makespan, found.prediction
    lines = []
    for row in [*rows, _sum(found)]:
        count = str(row.ops) if row.ops else ""
        line = [row.stream, row.kind, count, format_seconds(row.measured), f"{row.measured / whole:.1%}"]
        if there is not None and row.predicted is not None:
            ratio = _ratio(row.predicted / row.measured) if row.measured > 0 and row.predicted >= 0 else ""
            share = f"{row.predicted / there.timeline.makespan:.1%}" if there.timeline.makespan else ""
            line += [format_seconds(row.predicted), share, ratio, _signed(row.difference, whole)]
        lines.append(line)
    out.print(report.table((*COLUMNS, *(PREDICTED if there else ())), lines))


def _sum(found: Beside) -> Row:
    from sim.beside import Row

    there = found.prediction
    return Row("", "all", 0, found.recorded.timeline.makespan, there.timeline.makespan if there else None)


def _difference(rows: list[Row]) -> str:
    """Which kinds of op make it, the largest first."""
    total, moved = sum(row.difference for row in rows), sum(abs(row.difference) for row in rows)
    named = sorted(rows, key=lambda row: -abs(row.difference))
    texts = [f"{row.kind} {_signed(row.difference)}" for row in named if abs(row.difference) > NAMED * moved]
    return f"{_signed(total)} in all: {', '.join(texts)}" if texts else "none"


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def _signed(seconds: float, whole: float = 0.0) -> str:
    """A difference; empty where it is nothing beside the whole."""
    if abs(seconds) <= 1e-6 * whole:
        return ""
    return f"{'-' if seconds < 0 else '+'}{_ms(abs(seconds))}"
