"""From a schedule to the engine's program: compute ops get their seconds, collectives become rounds of permutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from algorithms.ir.expr import Const, Ints
from algorithms.ir.order import overwrites
from algorithms.ir.schedule import Op, Schedule
from algorithms.ir.timeline import line
from algorithms.ways.transfers import Transfer, transfers
from sim.costs import Machine
from sim.program import Program
from sim.state import Floats

COMPUTE_STREAM = 0


@dataclass
class Lowered:
    """A program, and which of its ops carry each op of the schedule.

    Attributes:
        first, last: program op that starts and that ends each schedule op; -1 for a load.
        sent: bytes each rank sends in each schedule op: one number, or (P,).
        busy: seconds of the compute stream, (P,).
    """

    schedule: Schedule
    program: Program
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    sent: list[Ints] = field(default_factory=list)
    busy: Floats = field(default_factory=lambda: np.zeros(()))

    def place(self, op: int) -> int:
        """The place in the schedule of the op that a program op is part of; -1 for what comes before all."""
        begun = [(first, place) for place, first in enumerate(self.first) if 0 <= first <= op]
        return max(begun)[1] if begun else -1

    def label(self, op: int) -> str:
        """Name a program op by the schedule's op that it is part of."""
        place = self.place(op)
        if place < 0:
            return "the late start"
        named = line(self.schedule.ops[place])
        return f"{named['name']} on stream {named['stream']}"


def lower(schedule: Schedule, machine: Machine, ways: Mapping[str, str], late: Floats | None = None) -> Lowered:
    """Lower a schedule for the GPUs of a machine.

    Args:
        ways: way by collective; what is missing takes its default.
        late: seconds by which each rank starts late, (P,).
    """
    return _Lowering(schedule, machine, ways).run(late)


class _Lowering:
    def __init__(self, schedule: Schedule, machine: Machine, ways: Mapping[str, str]) -> None:
        self.schedule, self.machine, self.ways = schedule, machine, ways
        self.program = Program(schedule.mesh.size)
        self.result = Lowered(schedule, self.program, busy=np.zeros(schedule.mesh.size))
        self.grid = schedule.mesh.grid()
        self.blocked = overwrites(schedule)
        self.written: dict[int, int] = {}  # value -> program op that ends it
        self.streams: dict[object, int] = {None: COMPUTE_STREAM}
        self.permutes: dict[object, Transfer] = {}
        self.start: list[int] = []  # what all waits for that waits for nothing else

    def run(self, late: Floats | None) -> Lowered:
        if late is not None and late.any():
            self.start = [self.program.compute(late, [], COMPUTE_STREAM)]
        for op in self.schedule.ops:
            if op.kind == "load":
                self.note(op, -1, -1, np.zeros((), dtype=np.int64))
            elif op.stream is None:
                self.compute(op)
            else:
                self.communicate(op)
        return self.result

    def note(self, op: Op, first: int, last: int, sent: Ints) -> None:
        """Remember where an op went."""
        self.result.first.append(first)
        self.result.last.append(last)
        self.result.sent.append(sent)
        if last >= 0:
            self.written |= {v.id: last for v in op.outputs}

    def needs(self, op: Op) -> list[int]:
        """Program ops that must end before an op starts: of its inputs, and of the readers of what it overwrites."""
        reading = [self.result.last[reader.id] for reader in self.blocked.get(op.id, ())]
        return sorted({self.written[v.id] for v in op.inputs if v.id in self.written}.union(reading)) or self.start

    def stream(self, key: object) -> int:
        return self.streams.setdefault(key, len(self.streams))

    def compute(self, op: Op) -> None:
        mesh = self.schedule.mesh
        seconds = self.machine.seconds(op, self.schedule.problem, self.grid, mesh.shape)
        wide: float | Floats = float(seconds) if seconds.ndim == 0 else np.broadcast_to(seconds, mesh.shape).reshape(-1)
        self.result.busy = self.result.busy + wide
        done = self.program.compute(wide, self.needs(op), COMPUTE_STREAM)
        self.note(op, done, done, np.zeros((), dtype=np.int64))

    def communicate(self, op: Op) -> None:
        """Launch on the op's stream, then its rounds, each after the one before."""
        stream = self.stream(op.stream)
        launch = self.machine.costs.comm_launch * np.broadcast_to(self.machine.real, self.schedule.mesh.size)
        moved = self.moves(op)
        idle = not any(t.nbytes.any() for t in moved)  # a group of one, or empty shards: nothing is launched
        cost: float | Floats = 0.0 if idle else float(launch[0]) if self.machine.real.ndim == 0 else launch
        first = last = self.program.compute(cost, self.needs(op), stream)
        sent = np.zeros((), dtype=np.int64)
        for group in _by_round(moved):
            last = self.round(op, stream, group, last)
            sent = sent + sum(t.nbytes for t in group)
        self.note(op, first, last, sent)

    def moves(self, op: Op) -> list[Transfer]:
        """The transfers of an op; permutes along one shift of blocks of one size are worked out once."""
        if op.kind != "permute" or not all(isinstance(v.type.rows, Const) for v in op.inputs):
            return list(transfers(op, self.schedule.mesh, self.ways))
        key = (op.over, id(op.params["origin"]), *(int(v.type.nbytes(self.grid)) for v in op.inputs))
        if key not in self.permutes:
            self.permutes[key] = next(transfers(op, self.schedule.mesh, self.ways))
        return [self.permutes[key]]

    def round(self, op: Op, stream: int, group: list[Transfer], before: int) -> int:
        """One round: a permute on the stream itself, or several on channels of their own between two marks."""
        if len(group) == 1:
            last = self.program.permute(group[0].dst, group[0].nbytes, [before], stream)
        else:
            sends = [
                self.program.permute(t.dst, t.nbytes, [before], self.stream((op.stream, t.channel))) for t in group
            ]
            last = self.program.compute(0.0, sends, stream)
        if group[0].combine:
            arriving = sum(_received(t) for t in group)
            last = self.program.compute(self.machine.reduce_seconds(arriving), [last], stream)
        return last


def _by_round(moved: list[Transfer]) -> list[list[Transfer]]:
    """Group transfers that start together."""
    groups: dict[int, list[Transfer]] = {}
    for t in moved:
        groups.setdefault(t.round, []).append(t)
    return list(groups.values())


def _received(t: Transfer) -> Ints:
    """Bytes that arrive at each rank."""
    arriving = np.zeros_like(t.nbytes)
    sends = t.dst >= 0
    arriving[t.dst[sends]] = t.nbytes[sends]
    return arriving
