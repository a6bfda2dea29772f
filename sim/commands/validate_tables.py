"""The tables of `ringloom validate`: the runs, the ops by kind, and what makes the difference."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from algorithms.ir.environment import UNSTEADY
from sim import report
from sim.beside import Beside, Row
from topologies.units import format_seconds

if TYPE_CHECKING:
    from rich.console import Console

    from sim.published import Compared
    from sim.recorded import Recorded
    from sim.simulate import Site

NAMED = 0.05  # of all differences: kinds of less are not named
COLUMNS = (("stream", "left"), ("op", "left"), ("count", "right"), ("measured", "right"), ("share", "right"))
PREDICTED = (("predicted", "right"), ("share", "right"), ("ratio", "right"), ("difference", "right"))


def show(found: Beside, site: Site | None, *, per_op: bool) -> None:
    """Print the answer for people."""
    with report.printing(sys.stdout) as out:
        report.facts(out, _facts(found, site))
        out.print()
        rows = found.by_op() if per_op else found.by_kind()
        _table(out, found, rows)
        if found.prediction is not None:
            out.print()
            report.bullet(out, "the difference: ", _difference(found.by_kind()))
            report.assumptions(out, list(found.prediction.assumptions))


def _facts(found: Beside, site: Site | None) -> dict[str, str]:
    recorded, there = found.recorded, found.prediction
    schedule, about = recorded.schedule, recorded.environment
    problem, mesh = schedule.problem, report.mesh_text(schedule.mesh.axes)
    ways = "native" if recorded.ways is None else "by our rounds"
    facts = {
        "run": f"{schedule.name} {problem.phase}, mesh {mesh}, layout {problem.layout}, "
        f"{problem.query_len:,} queries of {problem.key_len:,} keys, mask {problem.mask.short}, "
        f"{problem.heads}/{problem.kv_heads} heads of {problem.head_dim}, {problem.dtype}, collectives {ways}",
        "machine": ", ".join(str(about[name]) for name in ("cpu", "mpi", "pinned", "date") if about.get(name)),
        "measured": _measured(recorded),
        "replay": f"{_off(found, found.replayed.makespan)}: {_how(found)}",
    }
    if found.of_medians is not None:
        facts["medians"] = f"{_off(found, found.of_medians)}: the same with each compute op's median over the runs"
    if there is not None and site is not None:
        within = f"within the stated error {format_seconds(there.low)} to {format_seconds(there.high)}"
        facts["predicted"] = f"{_off(found, there.timeline.makespan)}: simulated on {site.name}; {within}"
        facts["mixed"] = f"{_off(found, there.mixed)}: compute as measured, transfers as predicted"
    return {name: text for name, text in facts.items() if text}


def _measured(recorded: Recorded) -> str:
    band, runs = recorded.band, len(recorded.runs)
    if not runs:
        return f"{format_seconds(band.median)}, one run"
    median, p10, p90 = map(format_seconds, band)
    unsteady = f"; unsteady, p90 is {band.p90 / band.p10:.2g} times p10" if band.p90 > UNSTEADY * band.p10 else ""
    return f"{median}, the median of {runs} runs (p10 {p10}, p90 {p90}){unsteady}"


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
    return f"{format_seconds(seconds)}, {found.error(seconds):+.1%}"


def _table(out: Console, found: Beside, rows: list[Row]) -> None:
    whole, there = found.recorded.timeline.makespan, found.prediction
    lines, compared = [], {"all", *(row.kind for row in rows if row.ops)}
    for row in [*rows, _sum(found)]:
        count = str(row.ops) if row.ops else ""
        line = [row.stream, row.kind, count, format_seconds(row.measured), f"{row.measured / whole:.1%}"]
        if there is not None and row.predicted is not None:
            ratio = _ratio(row) if row.measured > 0 and row.kind in compared else ""
            share = f"{row.predicted / there.timeline.makespan:.1%}" if there.timeline.makespan else ""
            line += [format_seconds(row.predicted), share, ratio, _signed(row.difference, whole)]
        lines.append(line)
    out.print(report.table((*COLUMNS, *(PREDICTED if there else ())), lines))


def _sum(found: Beside) -> Row:
    there = found.prediction
    return Row("", "all", 0, found.recorded.timeline.makespan, there.timeline.makespan if there else None)


def _difference(rows: list[Row]) -> str:
    """Which kinds of op make it, the largest first."""
    total, moved = sum(row.difference for row in rows), sum(abs(row.difference) for row in rows)
    named = sorted(rows, key=lambda row: -abs(row.difference))
    texts = [f"{row.kind} {_signed(row.difference)}" for row in named if abs(row.difference) > NAMED * moved]
    return f"{_signed(total)} in all: {', '.join(texts)}" if texts else "none"


def _ratio(row: Row) -> str:
    ratio = (row.predicted or 0.0) / row.measured
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def _signed(seconds: float, whole: float = 0.0) -> str:
    """A difference; empty where it is nothing beside the whole."""
    if abs(seconds) <= 1e-6 * whole:
        return ""
    return f"{'-' if seconds < 0 else '+'}{format_seconds(abs(seconds))}"


def show_published(rows: Sequence[Compared]) -> None:
    """Print what was published beside what is predicted."""
    columns = (("figure", "left"), ("predicted", "right"), ("published", "right"), ("", "left"), ("error", "right"))
    lines = [(one.name, f"{one.predicted:.3g}", f"{one.published:.3g}", one.unit, f"{one.error:+.1%}") for one in rows]
    notes = [f"{one.name}: {one.why}" for one in rows if one.why]
    with report.printing(sys.stdout) as out:
        out.print(report.table(columns, lines))
        for heading, texts in (("where it is off", notes), ("sources", dict.fromkeys(one.source for one in rows))):
            out.print(f"\n{heading}:")
            for text in texts:
                report.bullet(out, "  - ", text)
