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
    from sim.beside import Beside
    from sim.recorded import Recorded
    from sim.simulate import Site

SCHEMA = "ringloom.validate/1"


@dataclass(frozen=True)
class Wanted:
    """What the options said."""

    measured: str | None
    published: bool
    algorithm: str | None
    compute_error: float
    comm_error: float
    per_op: bool
    json: bool


_OPTIONS = (
    click.option("--measured", metavar="FILE", help="A timeline, as `ringloom-run time --timeline FILE` writes it."),
    click.option("--published", is_flag=True, help="Predicted beside published: bus bandwidths, and a ring's speed."),
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
    """Put what was measured, or published, beside what is predicted.

    A measured timeline stands beside its replay, too: what each op took itself, waiting left out, put together again
    by the engine. The replay tests how runs are composed; the prediction tests the costs as well.
    """
    files = pictures.files()
    if wanted.published:
        _published(wanted, named, files)
        return
    if wanted.measured is None:
        raise ValueError("validate needs --measured FILE, or --published")

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
        from sim.commands.validate_tables import show

        show(found, site, per_op=wanted.per_op)


def _published(wanted: Wanted, named: Named, files: dict[str, str]) -> None:
    """Put what was published beside what is predicted."""
    said: dict[str, object] = {
        "--measured": wanted.measured,
        "--algorithm": wanted.algorithm,
        "--cluster": named.cluster,
    }
    said |= {"--per-op": wanted.per_op or None, "--png, --svg and --html": files or None}
    for option, value in said.items():
        if value is not None:
            raise ValueError(f"--published has clusters and problems of its own: leave out {option}")

    from sim.commands.validate_tables import show_published
    from sim.published import compared

    rows = list(compared())
    if wanted.json:
        table = [one._asdict() | {"error": one.error} for one in rows]
        json.dump({"schema": SCHEMA, "ringloom": version(), "published": table}, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        show_published(rows)


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
    measured = graph.graph.get("measured")
    about = measured.get("environment") if isinstance(measured, dict) else None
    if isinstance(about, dict) and (other := difference(about, recorded.environment)):
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
