"""Summary: one timeline and its schedule in rows: seconds and bytes by kind of op, and what fills the memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from algorithms.ir.order import Live, live_at_peak
from algorithms.ir.schedule import Op, Schedule
from algorithms.ir.timeline import Timeline
from algorithms.ops import free, work


class Kind(NamedTuple):
    """All ops of one kind on one stream.

    Attributes:
        seconds: from start to end of each op, summed on the rank where that is most; a communication op also
            waits for its partners. None where the timeline has extents only and does not say.
        first, last: when the first began on any rank and the last ended.
        flop: of all ranks. sent: bytes of the rank that sends most; no less than that where there are extents only.
    """

    stream: str
    kind: str
    ops: int
    seconds: float | None
    first: float
    last: float
    flop: float
    sent: int


def by_kind(schedule: Schedule, timeline: Timeline) -> list[Kind]:
    """Sum the ops up by stream and kind, in the order in which they first appear; what takes no time is left out."""
    return [_sum(*what, places, schedule, timeline) for what, places in groups(timeline.ops).items()]


def groups(ops: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[int]]:
    """The places of the ops of each stream and kind; ops as a timeline names them."""
    found: dict[tuple[str, str], list[int]] = {}
    for place, op in enumerate(ops):
        if op["kind"] not in free():
            found.setdefault((op["stream"], op["kind"]), []).append(place)
    return found


def _sum(stream: str, kind: str, places: list[int], schedule: Schedule, timeline: Timeline) -> Kind:
    start, end, sent = timeline.start[places], timeline.end[places], timeline.sent[places]
    known = timeline.spent.get(f"{stream} {kind}") if timeline.extent else float((end - start).sum(0).max())
    return Kind(
        stream=stream,
        kind=kind,
        ops=len(places),
        seconds=known,
        first=float(start.min()),
        last=float(end.max()),
        flop=sum(timeline.flop[p] if timeline.flop else flop(schedule.ops[p], schedule) for p in places),
        sent=int(sent.sum(0).max()),
    )


def flop(op: Op, schedule: Schedule) -> float:
    """FLOP of an op on all ranks together."""
    if op.stream is not None:
        return 0.0
    return float(np.broadcast_to(work(op, schedule.mesh.grid()).flop, schedule.mesh.shape).sum())


class Held(NamedTuple):
    """What fills the memory of the fullest rank at its peak: a row by kind of op that wrote it, and by type."""

    what: str
    values: int
    nbytes: int


def at_peak(schedule: Schedule, timeline: Timeline) -> tuple[int, Op, list[Held]]:
    """Return the fullest rank, the op at which it is, and what it then holds, largest first."""
    rank = int(timeline.peak.argmax())
    op, live = live_at_peak(schedule, rank)
    held: dict[str, Held] = {}
    for what, one in _named(live):
        before = held.get(what, Held(what, 0, 0))
        held[what] = Held(what, before.values + 1, before.nbytes + one.nbytes)
    return rank, op, sorted(held.values(), key=lambda row: -row.nbytes)


def _named(live: tuple[Live, ...]) -> Iterator[tuple[str, Live]]:
    for one in live:
        name = one.op.params.get("name", "")
        width = " x ".join(map(str, one.value.type.width))
        yield f"{one.op.kind}{f' {name}' if name else ''}: {one.value.type.dtype}, rows x {width}", one
