"""Replay: what ops took themselves, put together again by the engine into a run.

Where ranks do one thing at a time, the executor's fixed order is one stream; else the streams of the schedule are the
engine's, each op after what it reads. A communication op makes its members meet, by messages that take no time, and
then takes on each what it took itself. Seconds of several timelines may be mixed: that is what replay is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import networkx as nx
import numpy as np

from algorithms.ir.order import overwrites, steps
from algorithms.ir.schedule import Op, Schedule
from algorithms.ir.timeline import Timeline
from algorithms.ops import is_view
from algorithms.ops.permute import destinations
from sim.fastest import run_fastest
from sim.network import Network
from sim.own_times import POSTED, WAITED, Own
from sim.pacing import steps_of_barrier
from sim.program import Program, freeze
from sim.rows import row

COMPUTE_STREAM = 0


def replay(schedule: Schedule, timeline: Timeline, took: Own) -> Timeline:
    """Run a schedule with the seconds that its ops took; all else in the timeline stays.

    Raises:
        StallError: its ranks wait for each other.
    """
    built = _Replay(schedule, took)
    built.by_line() if took.by_line else built.by_stream()
    if not built.program.kinds:
        return replace(timeline, start=timeline.start * 0, end=timeline.end * 0, makespan=0.0)
    spans = run_fastest(freeze(built.program, _at_once(schedule.mesh.size)), "full").unfolded()
    start, end = np.zeros_like(timeline.start), np.zeros_like(timeline.end)
    for op in schedule.ops:
        if op.id in built.first:
            start[op.id], end[op.id] = spans.start[built.first[op.id]], spans.end[built.last[op.id]]
        elif built.written.get(op.id):
            start[op.id] = end[op.id] = spans.end[list(built.written[op.id])].max(0)
    return replace(timeline, start=start, end=end, makespan=float(end.max(initial=0.0)))


def _at_once(ranks: int) -> Network:
    """A network on which messages without bytes arrive at once."""
    graph = nx.DiGraph(name="replay")
    for rank in range(ranks):
        graph.add_node(rank, kind="gpu", rank=rank)
        graph.add_edge(rank, "all", bandwidth=1.0, latency=0.0)
        graph.add_edge("all", rank, bandwidth=1.0, latency=0.0)
    return Network(graph)


class _Replay:
    """A schedule as a program of the engine.

    Attributes:
        first, last: the program's ops that start and that end each op, by id.
        written: the program's ops that have ended when what an op writes is there, by id.
    """

    def __init__(self, schedule: Schedule, took: Own) -> None:
        self.schedule, self.took = schedule, took
        self.program = Program(schedule.mesh.size)
        self.first, self.last = dict[int, int](), dict[int, int]()
        self.written = dict[int, tuple[int, ...]]()
        self.streams: dict[object, int] = {None: COMPUTE_STREAM}
        if took.late.any():
            self.program.compute(row(took.late), [], COMPUTE_STREAM)

    def by_line(self) -> None:
        """Line after line on one stream; what is under way meanwhile meets on a stream of its own."""
        met = dict[int, list[int]]()
        for action, op in steps(self.schedule):
            if action == "post":
                self.first[op.id] = posted = self.program.compute(row(self.took.posting[op.id]), [], COMPUTE_STREAM)
                if self.took.meets[op.id] == POSTED:
                    met[op.id] = self.meet(op, [posted], self.stream(op.id))
            else:
                if self.took.meets[op.id] == WAITED:
                    self.meet(op, [], COMPUTE_STREAM)
                self.end(op, met.pop(op.id, []), COMPUTE_STREAM)

    def by_stream(self) -> None:
        """Each op on its stream, after what it reads and after the readers of what it overwrites."""
        source = {v.id: op.id for op in self.schedule.ops for v in op.outputs}
        blocked = overwrites(self.schedule)
        for op in self.schedule.ops:
            before = {source[v.id] for v in op.inputs} | {b.id for b in blocked.get(op.id, ())}
            needs = sorted({n for earlier in before for n in self.written[earlier]})
            if is_view(op) or (op.kind == "load" and not self.took.seconds[op.id].any()):
                self.written[op.id] = tuple(needs)  # as soon as what it shows; what was loaded before, at the start
                continue
            stream = self.stream(op.stream)
            if op.stream is not None:
                self.first[op.id] = begun = self.program.compute(0.0, needs, stream)
                needs = self.meet(op, [begun], stream) if self.took.meets[op.id] == POSTED else [begun]
            self.end(op, needs, stream)

    def stream(self, key: object) -> int:
        return self.streams.setdefault(key, len(self.streams))

    def end(self, op: Op, after: Sequence[int], stream: int) -> None:
        """The op itself, after what it waits for."""
        self.last[op.id] = done = self.program.compute(row(self.took.seconds[op.id]), after, stream)
        self.first.setdefault(op.id, done)
        self.written[op.id] = (done,)

    def meet(self, op: Op, after: list[int], stream: int) -> list[int]:
        """Messages without bytes, until all that meet in an op have come."""
        mesh = self.schedule.mesh
        patterns = [destinations(op, mesh)] if op.kind == "permute" else steps_of_barrier(mesh, op.over)
        for dst in patterns:
            after = [self.program.permute(dst, 0.0, after, stream)]
        return after
