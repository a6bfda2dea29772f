"""From a schedule to the engine's program: compute ops get their seconds, collectives become rounds of permutes.

Where the host drives links, ops stand in the executor's fixed order, a transfer where it is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np

from algorithms.ir import Inapplicable
from algorithms.ir.expr import Const, Ints
from algorithms.ir.order import overwrites, steps
from algorithms.ir.schedule import Op, Schedule
from algorithms.ops import is_view
from algorithms.ops.permute import destinations
from algorithms.ways.transfers import transfers, way_of
from sim.costs import Machine
from sim.hosted import Hosted
from sim.lowered import Lowered
from sim.pacing import PLAIN, Pacing, Sends, sends_of, share, steps_of_barrier
from sim.program import Program
from sim.rows import Row, row, total
from sim.state import Floats
from sim.tiles import Tiles

COMPUTE_STREAM = 0
ZERO = Row(np.zeros(()))


def lower(
    schedule: Schedule,
    machine: Machine,
    ways: Mapping[str, str],
    late: Floats | None = None,
    pacing: Pacing = PLAIN,
    hosted: Hosted | None = None,
) -> Lowered:
    """Lower a schedule for the GPUs of a machine.

    Args:
        ways: way by collective; what is missing goes the program's way, or the default.
        late: seconds by which each rank starts late, (P,).
        pacing: how the rounds of a collective follow each other.
        hosted: which transfers the host drives; None: none.
    """
    return _Lowering(schedule, machine, ways, pacing, hosted).run(late)


class _Lowering:
    def __init__(
        self,
        schedule: Schedule,
        machine: Machine,
        ways: Mapping[str, str],
        pacing: Pacing,
        hosted: Hosted | None,
    ) -> None:
        self.schedule, self.machine, self.ways, self.pacing, self.hosted = schedule, machine, ways, pacing, hosted
        self.program = Program(schedule.mesh.size)
        self.result = Lowered(schedule, self.program)
        self.tiles = Tiles(machine, schedule.problem, schedule.mesh)
        self.blocked = overwrites(schedule)
        self.written: dict[int, tuple[int, ...]] = {}  # value -> program ops that end it; of what is loaded, none
        self.streams: dict[object, int] = {None: COMPUTE_STREAM}
        self.receivers: dict[object, Ints] = {}
        self.permutes: dict[object, Sends] = {}
        self.barriers: dict[tuple[str, ...], tuple[Ints, ...]] = {}
        self.launch = row(machine.costs.comm_launch * machine.real)
        self.start: list[int] = []  # what all waits for that waits for nothing else

    def run(self, late: Floats | None) -> Lowered:
        if late is not None and late.any():
            self.start = [self.program.compute(late, [], COMPUTE_STREAM)]
        for op in self.order():
            if op.kind == "load":
                continue
            if is_view(op):
                self.show(op)
            elif op.stream is None:
                self.compute(op)
            else:
                self.communicate(op)
        return self.result

    def order(self) -> Iterable[Op]:
        """The ops as the program has them: as they were written, or where the executor runs or waits for them."""
        if self.hosted is None:
            return self.schedule.ops
        return (op for action, op in steps(self.schedule) if action != "post")

    def note(self, op: Op, first: int, last: int, sent: tuple[Row, ...], flop: float = 0.0) -> None:
        """Remember where an op went."""
        self.result.first[op.id], self.result.last[op.id] = first, last
        self.result.sent[op.id], self.result.flop[op.id] = sent, flop
        for v in op.outputs:
            self.written[v.id] = (last,)

    def show(self, op: Op) -> None:
        """A view: there as soon as what it shows is."""
        shown = tuple(sorted(self.writers(op)))
        self.result.shown[op.id] = shown
        self.written |= {v.id: shown for v in op.outputs}

    def writers(self, op: Op) -> set[int]:
        """Program ops that end what an op reads."""
        return {ended for v in op.inputs for ended in self.written.get(v.id, ())}

    def needs(self, op: Op) -> list[int]:
        """Program ops that must end before an op starts: of its inputs, and of the readers of what it overwrites."""
        found = self.writers(op)
        found.update([self.result.last[reader.id] for reader in self.blocked.get(op.id, ()) if not is_view(reader)])
        return sorted(found) or self.start

    def stream(self, key: object) -> int:
        return self.streams.setdefault(key, len(self.streams))

    def compute(self, op: Op) -> None:
        seconds, flop, binds = self.tiles.seconds(op)
        self.result.busy = seconds.added_to(self.result.busy)
        self.result.binds += binds
        done = self.program.compute(seconds, self.needs(op), COMPUTE_STREAM)
        self.note(op, done, done, (), flop)

    def communicate(self, op: Op) -> None:
        """Launch on the op's stream, then its rounds, each after the one before."""
        stream = self.stream(op.stream)
        rounds = self.moves(op)
        sent = tuple([one.nbytes for group in rounds for one in group])
        idle = not any(nbytes.values.any() for nbytes in sent)  # of one rank, or of empty shards
        first = self.program.compute(0.0 if idle else self.launch, self.needs(op), stream)
        native = (
            None if idle or op.kind in ("permute", *self.ways) else self.machine.native_seconds(op, self.schedule.mesh)
        )
        if native is not None:
            last = self.native(op, native, [first])
        elif self.pacing.cuts and op.kind != "permute" and not idle:
            last = [self.chunks(op, rounds, [first])]
        elif op.kind in self.pacing.drift:
            last = [self.drifting(op, rounds, first)]
        else:
            last = self.rounds(op, op.stream, rounds, [first])
        self.note(op, first, self.joined(last, stream), sent)

    def joined(self, ends: Sequence[int], stream: int) -> int:
        """One op that has ended when all of these have."""
        return ends[0] if len(ends) == 1 else self.program.compute(0.0, ends, stream)

    def native(self, op: Op, seconds: Floats, before: list[int]) -> list[int]:
        """A collective as the library does it: when the group has met, it takes the seconds measured."""
        self.result.native.add(op.id)
        last = self.barrier(op, op.stream, before)
        return [self.program.compute(row(seconds), last, self.driven(op.stream))]

    def driven(self, key: object) -> int:
        """The stream in which a library's work on a communication stream is done."""
        return self.stream(key) if self.hosted is None else COMPUTE_STREAM

    def chunks(self, op: Op, rounds: list[list[Sends]], before: list[int]) -> int:
        """The rounds for one chunk after another, each round on a stream of its own and channel, between two marks."""
        count, ends = self.pacing.count(rounds), list[int]()
        for chunk in range(count):
            channel, last = chunk % self.pacing.channels, before
            for stage, group in enumerate(share(rounds, chunk, count)):
                last = self.rounds(op, (op.stream, "chunk", channel, stage), [group], last, stage)
            ends += last
        return self.program.compute(0.0, ends, self.stream(op.stream))

    def drifting(self, op: Op, rounds: list[list[Sends]], before: int) -> int:
        """Each rank's sends one after another, on a stream of its own."""
        self.pacing.check_way(op.kind, way_of(op, self.ways), self.schedule.mesh.size)
        if self.hosted is not None:
            raise Inapplicable(f"--drift {op.kind}: the host drives links here, one message after another")
        ends = []
        for sender in range(self.schedule.mesh.size):
            stream, last = self.stream((op.stream, "sender", sender)), before
            for dst, nbytes in sends_of(rounds, sender):
                last = self.program.permute(dst, nbytes, [last], stream)
            ends.append(last)
        return self.program.compute(0.0, ends, self.stream(op.stream))

    def rounds(self, op: Op, key: object, rounds: list[list[Sends]], last: list[int], begin: int = 0) -> list[int]:
        """Rounds on the stream of a key, each after the one before, and after a barrier where one is asked for."""
        for number, group in enumerate(rounds, begin):
            if number and op.kind in self.pacing.barrier:
                last = self.barrier(op, key, last)
            last = self.round(key, group, last)
        return last

    def barrier(self, op: Op, key: object, last: list[int]) -> list[int]:
        """Messages without bytes, until every member of a group knows of every other."""
        if op.over not in self.barriers:
            self.barriers[op.over] = tuple(steps_of_barrier(self.schedule.mesh, op.over))
        for dst in self.barriers[op.over]:
            last = self.send(dst, ZERO, last, self.stream(key))
        return last

    def moves(self, op: Op) -> list[list[Sends]]:
        """What an op sends, by round."""
        if op.kind == "permute":
            return [[self.permute(op)]]
        moved = transfers(op, self.schedule.mesh, self.ways)
        sends = (Sends(one.round, one.channel, one.dst, row(one.nbytes), one.combine) for one in moved)
        return [list(group) for _, group in groupby(sends, key=lambda one: one.round)]

    def permute(self, op: Op) -> Sends:
        """What a permute sends; permutes along one shift of blocks of one size are worked out once."""
        where = op.over, id(op.params["origin"])
        if where not in self.receivers:
            self.receivers[where] = destinations(op, self.schedule.mesh)
        key = *where, *[id(v.type) for v in op.inputs]  # what is passed on keeps its type
        found = self.permutes.get(key)
        if found is None:
            dst = self.receivers[where]
            sends = self.tiles.nbytes(op.inputs, dst)
            if (sends.values == 0).any():  # who has no rows sends nothing
                dst = np.where(sends.at() > 0, dst, -1)
            found = Sends(0, 0, dst, sends, False)
            if all(isinstance(v.type.rows, Const) for v in op.inputs):
                self.permutes[key] = found
        return found

    def round(self, key: object, group: list[Sends], before: list[int]) -> list[int]:
        """One round: a permute on the stream itself, or several on channels of their own between two marks."""
        stream = self.stream(key)
        if len(group) == 1:
            last = self.send(group[0].dst, group[0].nbytes, before, stream)
        else:
            sends = [
                end for one in group for end in self.send(one.dst, one.nbytes, before, self.stream((key, one.channel)))
            ]
            last = [self.program.compute(0.0, sends, stream)]
        if group[0].combine:
            arriving = total([row(_received(one.dst, one.nbytes)) for one in group])
            last = [self.program.compute(row(self.machine.reduce_seconds(arriving)), last, self.driven(key))]
        return last

    def send(self, dst: Ints, nbytes: Row, before: list[int], stream: int) -> list[int]:
        """A permute, on the stream or, what the host drives of it, between what both its ends compute."""
        if self.hosted is None:
            return [self.message(dst, nbytes, before, stream)]
        by_host, offloaded = self.hosted.split(dst)
        parts = [(by_host, COMPUTE_STREAM), (offloaded, stream)]
        return [self.message(part, nbytes, before, on) for part, on in parts if part is not None]

    def message(self, dst: Ints, nbytes: Row, before: list[int], stream: int) -> int:
        """A permute; where messages were measured, all that its links do not account for comes first."""
        if self.machine.is_measured:
            most = np.maximum(np.where(dst >= 0, nbytes.at(), 0.0), _received(dst, nbytes))
            before = [self.program.compute(row(self.machine.message_seconds(most)), before, stream)]
            self.result.messages.update(before)
        return self.program.permute(dst, nbytes, before, stream)


def _received(dst: Ints, nbytes: Row) -> Floats:
    """Bytes that arrive at each rank."""
    arriving, sends = np.zeros(len(dst)), dst >= 0
    arriving[dst[sends]] = np.broadcast_to(nbytes.at(), len(dst))[sends]
    return arriving
