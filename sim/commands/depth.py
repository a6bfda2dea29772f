"""The tables of `ringloom simulate`: ops by kind, links, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim import report
from sim.summary import at_peak, by_kind
from topologies.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from rich.table import Table

    from algorithms.ir import Schedule
    from algorithms.ir.timeline import Timeline
    from sim.bound import Bound
    from sim.result import Result


def effective(found: Result) -> dict[str, str]:
    """What was run, as it was chosen."""
    ways = ", ".join(f"{kind} by {way}" for kind, way in found.ways.items())
    return {
        "algorithm": f"{found.algorithm}, mesh {report.mesh_text(found.mesh)}, layout {found.layout}",
        "ways": ways or "none: it has no collective but permute",
    }


def varies(found: Result, how: str) -> dict[str, str]:
    """How much the time varies; how says by what and how often, and is empty where it does not."""
    if not how:
        return {}
    median, p10, p90 = map(format_seconds, (found.time_s, found.p10_s, found.p90_s))
    return {"varies": f"median {median}, p10 {p10}, p90 {p90} over {how}; the middle one is shown"}


def times(found: Result, least: Bound, form: str = "") -> dict[str, str]:
    """The times and what they amount to; form is the attention's where it has others."""
    low, high = format_seconds(found.time_low_s), format_seconds(found.time_high_s)
    within = report.within([found])
    useful = "" if found.useful_share is None else f"{found.useful_share:.1%} of the keys received, by some query there"
    facts = {
        "time": f"{format_seconds(found.time_s)}, between {low} and {high} within {within}",
        "compute": f"{format_seconds(found.compute_s)} on the rank that has most",
        "exposed": f"{format_seconds(found.exposed_communication_s)} waiting for communication or for others",
        "seen": useful,
        "speed": report.rate_text(found),
        "bound": report.bound_text(least, form),
        "distance": f"{found.time_s / found.bound_s:.2f} times the bound" if found.bound_s else "no bound",
        "bottleneck": found.bottleneck,
        "memory": f"peak {format_bytes(found.peak_bytes.max)}"
        + ("" if found.memory_bytes is None else f" of {format_bytes(found.memory_bytes)}")
        + ("" if found.fits else ": it does not fit, weights not counted"),
    }
    return {name: text for name, text in facts.items() if text}


MOST_BOUNDS = 8  # of the critical path, in the table

KINDS = (
    ("stream", "left"),
    ("op", "left"),
    ("count", "right"),
    ("seconds", "right"),
    ("first start", "right"),
    ("last end", "right"),
    ("FLOP", "right"),
    ("sent/rank", "right"),
)


def kinds(schedule: Schedule, timeline: Timeline) -> Table:
    """The ops of one layer by stream and kind."""
    rows = [
        (
            one.stream,
            one.kind,
            str(one.ops),
            "" if one.seconds is None else format_seconds(one.seconds),
            format_seconds(one.first),
            format_seconds(one.last),
            f"{one.flop:.3g}" if one.flop else "",
            format_bytes(one.sent) if one.sent else "",
        )
        for one in by_kind(schedule, timeline)
    ]
    return report.table(KINDS, rows)


def links(timeline: Timeline) -> Table:
    """Bytes by class of link, and the hottest link of a class where it is among the hottest of all."""
    hottest: dict[str, str] = {}
    for link in timeline.hot_links:
        hottest.setdefault(
            link["kind"], f"{link['link']}: {link['utilisation']:.1%} of what it can carry, over the whole time"
        )
    rows = [(kind, format_bytes(size), hottest.get(kind, "")) for kind, size in timeline.link_bytes.items() if size]
    return report.table((("link", "left"), ("carried", "right"), ("hottest", "left")), rows)


def path(timeline: Timeline) -> Table:
    """The critical path: seconds by what bound them, with the longest piece of each."""
    found = timeline.about.get("critical_path")
    if found is None:
        return report.table(((f"critical path: not found: {timeline.about['no_critical_path']}", "left"),), ())
    rows = []
    for total in found["totals"][:MOST_BOUNDS]:
        mine = [piece for piece in found["pieces"] if piece["bound"] == total["bound"]]
        longest = max(mine, key=lambda piece: float(piece["seconds"]))
        where = f"{longest['op']} on rank {longest['rank']}, {format_seconds(longest['seconds'])}"
        share = f"{total['seconds'] / timeline.makespan:.1%}"
        rows.append((total["bound"], format_seconds(total["seconds"]), share, str(len(mine)), where))
    moves = f"critical path, {found['crossings']} moves between ranks"
    return report.table(
        ((moves, "left"), ("seconds", "right"), ("share", "right"), ("pieces", "right"), ("longest piece", "left")),
        rows,
    )


def memory(schedule: Schedule, timeline: Timeline) -> Table:
    """What fills the fullest rank at its peak."""
    rank, op, held = at_peak(schedule, timeline)
    total = format_bytes(int(timeline.peak[rank]))
    rows = [(one.what, str(one.values), format_bytes(one.nbytes)) for one in held]
    heading = f"peak memory: {total} on rank {rank}, at {op.kind} {op.id}"
    return report.table(((heading, "left"), ("values", "right"), ("bytes", "right")), rows)
