"""One rank a process over MPI: the schedule lowered to a flat list of calls, posts early and waits late."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from algorithms.ir import Mesh, Op, Schedule, Value
from algorithms.ir.expr import Ints
from algorithms.ir.mesh import Axes
from algorithms.ir.order import peak_bytes
from algorithms.ir.timeline import Timeline, lines
from algorithms.ops.load import held_heads
from algorithms.ops.permute import senders
from algorithms.ways.transfers import rounds
from executor.arrays import Array, Arrays, Positions, loaded
from executor.interpret import bind, fused_for, kernel_called
from executor.kernels import Kernel
from executor.lower import Communication, Program, execute, lower, spans
from executor.native import Place, native
from executor.rounds import carried, permute

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """What a run left on one rank.

    Attributes:
        results: this rank's array of each result.
        sent: bytes this rank sent in each op, (ops,); for a native collective, what it gave to MPI for others.
        start, end: seconds from the barrier before the run, (ops,).
    """

    results: Mapping[str, Array]
    sent: NDArray[np.int64]
    start: Floats
    end: Floats


class Streams:
    """Where this rank stands in each communication stream: communicators are made once and kept until closed."""

    def __init__(self, comm: MPI.Comm) -> None:
        """Split the streams off this communicator."""
        self.comm = comm
        self._split: dict[tuple[int, bytes, int], MPI.Comm] = {}
        self._stands: dict[tuple[Mesh, Axes, int], tuple[MPI.Comm, int, int, list[int]]] = {}

    def stand(self, mesh: Mesh, over: Axes, lane: int) -> tuple[MPI.Comm, int, int, list[int]]:
        """Return the stream's communicator, this rank's group and place in it, and the group's ranks.

        Every rank asks for the same streams in the same order.
        """
        key = mesh, over, lane
        if key not in self._stands:
            groups = mesh.groups(over)
            (group,), (member,) = np.nonzero(groups == self.comm.Get_rank())
            same = groups.shape[1], groups.tobytes(), lane
            if same not in self._split:
                self._split[same] = self.comm.Split(int(group), int(member))
            self._stands[key] = self._split[same], int(group), int(member), groups[group].tolist()
        return self._stands[key]

    def close(self) -> None:
        """Free the communicators; all ranks together."""
        for comm in self._split.values():
            comm.Free()
        self._split.clear()
        self._stands.clear()


def run(
    schedule: Schedule,
    arrays: Arrays,
    comm: MPI.Comm,
    kernel: str | Kernel = "numba",
    ways: Mapping[str, str] | None = None,
    streams: Streams | None = None,
    together: bool = True,
) -> Run:
    """Run this rank of a schedule; all ranks of the communicator call it together.

    Args:
        arrays: the whole inputs; this rank's shards are cut out of them.
        ways: carry collectives out in these ways, or the default ones where none is said; None: MPI's own.
        streams: communicators to use again; else they are made and freed here.
        together: start all ranks at once, so that their clocks agree.
    Raises:
        ValueError: the communicator has not as many ranks as the mesh.
    """
    if comm.Get_size() != schedule.mesh.size:
        raise ValueError(f"mesh {schedule.mesh} needs {schedule.mesh.size} ranks: MPI has {comm.Get_size()}")
    own = Streams(comm) if streams is None else streams
    try:
        sent = [0] * len(schedule.ops)
        program = lowered(schedule, arrays, own, kernel_called(kernel), ways, sent)
        if together:
            comm.Barrier()
        times = execute(program, time.perf_counter)
        start, end = spans(program, times - times[0], len(schedule.ops))
        results = {name: program.slots[v.id] for name, v in schedule.results.items()}
        return Run(results, np.array(sent, dtype=np.int64), start, end)
    finally:
        if streams is None:
            own.close()


def lowered(
    schedule: Schedule,
    arrays: Arrays,
    streams: Streams,
    kernel: Kernel,
    ways: Mapping[str, str] | None,
    sent: list[int],
) -> Program:
    """Return this rank's program; what it sends is added to `sent`, by op id."""
    rank = streams.comm.Get_rank()
    positions, peers, problem = Positions(schedule, rank), Peers(schedule.mesh, rank), schedule.problem
    fused = fused_for(kernel)

    def compute(op: Op) -> Any:
        if op.kind == "load":
            shard = loaded(op, arrays, schedule, rank)
            return lambda: (shard,)

        def heads(value: Value) -> Ints:
            return held_heads(value, problem, schedule.mesh, rank, problem.heads)

        return bind(op, positions, kernel, heads=heads, fused=fused)

    def communicate(op: Op) -> Communication:
        comm, group, member, ranks = streams.stand(schedule.mesh, op.over, op.lane)
        place = Place(comm, schedule.mesh, group, member, sent, fused.get("merge"))
        if op.kind == "permute":
            source, destination = map(ranks.index, peers.of(op))
            return permute(op, place, source, destination, peers.shapes(op))
        return native(op, place) if ways is None else carried(op, place, rounds(op, schedule.mesh, ways))

    return lower(schedule, compute, communicate)


class Peers:
    """Whom a rank receives from and sends to in permutes."""

    def __init__(self, mesh: Mesh, rank: int) -> None:
        """Answer for one rank."""
        self.mesh, self.rank, self.coords = mesh, rank, mesh.of_rank(rank)
        self._known: dict[int, tuple[Any, tuple[int, int]]] = {}

    def of(self, op: Op) -> tuple[int, int]:
        """The ranks it receives from and sends to; permutes by one shift share their answer."""
        origin = op.params["origin"]
        if id(origin) not in self._known:
            sender = senders(op, self.mesh)
            self._known[id(origin)] = origin, (int(sender[self.rank]), int(np.flatnonzero(sender == self.rank)[0]))
        return self._known[id(origin)][1]

    def shapes(self, op: Op) -> list[tuple[int, ...]]:
        """Shapes of what it receives."""
        return [(int(v.type.rows.at(self.coords)), *v.type.width) for v in op.outputs]


def timeline(schedule: Schedule, run: Run, comm: MPI.Comm, about: Mapping[str, Any]) -> Timeline | None:
    """Gather the ranks' runs to rank 0 as one timeline; None on the others.

    Args:
        about: what the run echoes besides the schedule's own.
    """
    runs = comm.gather((run.start, run.end, run.sent), root=0)
    if runs is None:
        return None
    start, end, sent = (np.stack(x, axis=1) for x in zip(*runs, strict=True))
    return as_timeline(schedule, start, end, sent, about)


def as_timeline(
    schedule: Schedule, start: Floats, end: Floats, sent: NDArray[np.int64], about: Mapping[str, Any]
) -> Timeline:
    """A measured timeline of all ranks, from what each op took and sent, (ops, ranks)."""
    compute = [op.id for op in schedule.ops if op.stream is None]
    return Timeline(
        clock="measured",
        ops=lines(schedule),
        start=start,
        end=end,
        sent=sent,
        busy=(end - start)[compute].sum(0),
        peak=peak_bytes(schedule),
        makespan=float(end.max(initial=0.0)),
        about={
            "algorithm": schedule.name,
            "mesh": dict(schedule.mesh.axes),
            "ranks": schedule.mesh.size,
            "layout": schedule.problem.layout,
            "problem": schedule.problem.describe(),
            **about,
        },
    )
