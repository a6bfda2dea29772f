"""Own times: what each op of a timeline took itself, without waiting for other ranks.

A communication op lasts from its post to the end of its wait, and much of that may be waiting. What it took itself is
what remains after all its members were ready: where ranks do one thing at a time, when the last of them began to wait
for it, or, if a member was through before that, when the last of them had posted it; where ranks have streams, when it
had started on the last of them.

Ranks do one thing at a time if their times fit the executor's fixed order, line after line: each line begins when the
one before it ends. Else the streams of the schedule run beside each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from algorithms.ir.mesh import Mesh
from algorithms.ir.order import Step, steps
from algorithms.ir.schedule import Op, Schedule
from algorithms.ir.timeline import Timeline
from algorithms.ops import is_free
from algorithms.ops.permute import senders
from sim.state import Floats

WAITED, POSTED, ALONE = "waited", "posted", "alone"  # what a member must have come to before an op goes on for others
SAME = 1e-9  # of the makespan: what rounding may do to a sum of times


@dataclass(frozen=True, eq=False)
class Own:
    """What each op took itself, in seconds, (ops, ranks).

    Attributes:
        seconds: of a compute op from start to end; of communication after all members were ready.
        posting: to start communication, where ranks do one thing at a time; else 0.
        waited: when each communication op began to be waited for, (ops, ranks); where ranks have streams, its start.
        meets: of each op, what its members wait for each other to have come to: WAITED, POSTED, or ALONE for nothing.
        late: when each rank began, (ranks,).
        by_line: whether ranks do one thing at a time.
    """

    seconds: Floats
    posting: Floats
    waited: Floats
    meets: tuple[str, ...]
    late: Floats
    by_line: bool


class _Ready(NamedTuple):
    """When ranks had posted each communication op, and began to wait for it, (ops, ranks)."""

    posted: Floats
    waited: Floats


def own(schedule: Schedule, timeline: Timeline, waited: Floats | None = None) -> Own:
    """Take the waiting out of a timeline with the times of every rank.

    Args:
        waited: when each communication op began to be waited for, (ops, ranks), where that was noted.
    """
    slack = SAME * timeline.makespan
    posting = np.zeros_like(timeline.start)
    ready = _by_line(schedule, timeline, waited, posting, slack)
    by_line = ready is not None
    if ready is None:
        posting[:] = 0.0
        ready = _Ready(timeline.start, timeline.start)
    seconds = timeline.end - timeline.start
    meets = [ALONE] * len(schedule.ops)
    for op in schedule.ops:
        if op.stream is not None:
            meets[op.id], seconds[op.id] = _own(op, schedule.mesh, ready, timeline.end[op.id], by_line, slack)
    late = timeline.start.min(0) if by_line else np.zeros(timeline.ranks)
    return Own(seconds, posting, ready.waited, tuple(meets), late, by_line)


def _own(op: Op, mesh: Mesh, ready: _Ready, end: Floats, by_line: bool, slack: float) -> tuple[str, Floats]:
    """What the members of a communication op wait for, and what it then takes on each, (ranks,)."""
    waited = ready.waited[op.id]
    tried = {WAITED: last_of(op, mesh, waited)} if by_line else {}
    tried[POSTED] = np.maximum(waited, last_of(op, mesh, ready.posted[op.id]))
    for meets, begun in tried.items():
        if (end - begun >= -slack).all():
            return meets, np.maximum(0.0, end - begun)
    return ALONE, np.maximum(0.0, end - waited)


def last_of(op: Op, mesh: Mesh, times: Floats) -> Floats:
    """The latest time of those whom each rank meets in an op, itself among them, (ranks,)."""
    if op.kind == "permute":
        sender = senders(op, mesh)
        found = np.maximum(times, times[sender])
        found[sender] = np.maximum(found[sender], times)
        return found
    groups, found = mesh.groups(op.over), np.empty_like(times)
    found[groups] = times[groups].max(1, keepdims=True)
    return found


def _by_line(
    schedule: Schedule, timeline: Timeline, waited: Floats | None, posting: Floats, slack: float
) -> _Ready | None:
    """When ranks that do one thing at a time were ready; None if these times are not of such ranks.

    The seconds of each post are put into `posting`. If nobody noted when a wait began, it began when the line before it
    ended; a post right before a wait then counts as part of it.
    """
    order = steps(schedule)
    ready = _Ready(timeline.start.copy(), timeline.end.copy())
    before = timeline.start.min(0)
    for number, (action, op) in enumerate(order):
        start, end = timeline.start[op.id], timeline.end[op.id]
        if action == "wait":
            idle = end - start <= slack
            start = before if waited is None else waited[op.id]
            ready.waited[op.id] = np.minimum(start, end)
            if ((end < start - slack) & ~idle).any():
                return None
        elif action == "run" and not is_free(op) and (start < before - slack).any():
            return None
        if action == "post":
            start = np.maximum(start, before)
            end = _post_end(order[number + 1], timeline, waited, start)
            posting[op.id] = end - start
            ready.posted[op.id] = end
        before = np.maximum(before, end)
    return ready


def _post_end(following: Step, timeline: Timeline, waited: Floats | None, start: Floats) -> Floats:
    """When a post ended: when the next line began."""
    action, op = following
    if action != "wait":
        return np.asarray(np.maximum(start, timeline.start[op.id]))
    return start if waited is None else np.asarray(np.maximum(start, waited[op.id]))
