"""Max-plus: end times without events, where flows never hold each other back (`sim/apart.py`).

A flow then has one rate, and times are a recurrence over ops with nothing in it but maxima and sums: one pass
over the ranks an op. The bits are those of the engine.
"""

from math import isqrt

import numpy as np

from sim.engine import Progress
from sim.jit import compiled
from sim.program import Frozen
from sim.rows import table
from sim.spans import Record, Spans, Times
from sim.state import COMPUTE, Floats, Ints, Longs, Plan
from sim.traffic import link_bytes

BATCH = 1 << 22  # numbers of rows that are made at once
WHOLE = 1 << 23  # (op, rank) pairs whose times are kept for a path; of more, a stretch is run again when asked for
STRETCHES = 2  # that are kept, as a path goes back from one to the one before


def recur(frozen: Frozen, rate: Floats, record: Record = "full", progress: Progress | None = None) -> Spans:
    """Return when each op runs.

    Args:
        rate: [flows] bytes per second, as `apart.rates` finds them.
    """
    ops, ranks = len(frozen.bare.kind), frozen.ranks
    if record == "path" and ops * ranks <= WHOLE:
        record = "full"
    columns = ranks if record == "full" else 1
    start, end = np.empty((ops, columns)), np.empty((ops, columns))
    recurrence = _Recurrence(frozen, rate)
    again = _Again(recurrence) if record == "path" else None
    batch = _batch(ranks)
    for begin in range(0, ops, batch):
        if again is not None:
            again.mark(begin)
        stop = min(begin + batch, ops)
        recurrence.advance(begin, stop, start[begin:stop], end[begin:stop])
        if progress is not None:
            progress(stop / ops, float(recurrence.tail.max()))
    whole = record == "full"
    return Spans(
        start=start if whole else start[:, 0],
        end=end if whole else end[:, 0],
        makespan=float(recurrence.tail.max(initial=0.0)),
        link_bytes=link_bytes(frozen),
        instants=0,
        how="max-plus",
        again=None if again is None else again.times,
    )


class _Recurrence:
    """A program and where its run stands: the ends of each stream's latest op, and those that are needed yet."""

    def __init__(self, frozen: Frozen, rate: Floats) -> None:
        self.frozen, self.rate, self.stream = frozen, rate, _streams(frozen.bare)
        self.shelf, shelves = _shelves(frozen.bare)
        self.kept = np.zeros((shelves, frozen.ranks))
        self.tail = np.zeros((len(frozen.bare.length), frozen.ranks))

    def advance(self, begin: int, stop: int, start: Floats, end: Floats) -> None:
        """Run the ops begin:stop and note when, [ops, ranks], or [ops, 1] of the outermost ranks."""
        frozen, plan = self.frozen, self.frozen.bare
        used, place = np.unique(plan.row[begin:stop], return_inverse=True)
        rows = table([frozen.rows[row] for row in used], frozen.ranks)
        shelf, kept, tail = self.shelf, self.kept, self.tail
        _advance(plan, begin, stop, self.stream, rows, place, self.rate, shelf, kept, tail, start, end)


class _Again:
    """Times on every rank of a run that keeps extents: from marks of where it stood, stretches are run again."""

    def __init__(self, recurrence: _Recurrence) -> None:
        self.run, frozen = recurrence, recurrence.frozen
        self.ops, self.ranks = len(frozen.bare.kind), frozen.ranks
        marked, batch = len(recurrence.kept) + len(recurrence.tail), _batch(self.ranks)
        balanced = isqrt(self.ops * marked // (2 * STRETCHES))  # as much memory for marks as for stretches
        self.stretch = batch * max(1, round(balanced / batch))
        self.marks: list[tuple[Floats, Floats]] = []
        self.stretches: dict[int, Floats] = {}

    def mark(self, op: int) -> None:
        """Note where the run stands before an op, where a stretch begins."""
        if op % self.stretch == 0:
            self.marks.append((self.run.kept.copy(), self.run.tail.copy()))

    def times(self, op: int) -> Times:
        """The times of an op."""
        place, row = divmod(op, self.stretch)
        if place not in self.stretches:
            full = len(self.stretches) == STRETCHES
            room = self.stretches.pop(max(self.stretches)) if full else np.empty((2, self.stretch, self.ranks))
            self._run(place, *room)
            self.stretches[place] = room
        start, end = self.stretches[place][:, row]
        return start, end

    def _run(self, place: int, start: Floats, end: Floats) -> None:
        self.run.kept[:], self.run.tail[:] = self.marks[place]
        first, last = place * self.stretch, min((place + 1) * self.stretch, self.ops)
        for begin in range(first, last, _batch(self.ranks)):
            stop = min(begin + _batch(self.ranks), last)
            self.run.advance(begin, stop, start[begin - first : stop - first], end[begin - first : stop - first])


def _batch(ranks: int) -> int:
    """How many ops are run at once."""
    return max(1, BATCH // ranks)


def _streams(plan: Plan) -> Ints:
    """Return the stream of each op."""
    stream = np.empty(len(plan.kind), np.int32)
    for number, length in enumerate(plan.length):
        stream[plan.order[number, :length]] = number
    return stream


def _shelves(plan: Plan) -> tuple[Ints, int]:
    """Give each op whose end a later op of another stream needs a shelf until then; -1: none is needed."""
    needed = np.where(plan.need_position >= 0, plan.order[plan.need_stream, plan.need_position], -1)
    last = np.full(len(plan.kind) + 1, -1)
    np.maximum.at(last, needed, np.arange(len(plan.kind))[:, None])
    shelf, free, freed, shelves = np.full(len(plan.kind), -1, np.int32), list[int](), dict[int, list[int]](), 0
    for op, until in enumerate(last[:-1].tolist()):
        if until >= 0:
            if not free:
                free.append(shelves)
                shelves += 1
            shelf[op] = free.pop()
            freed.setdefault(until, []).append(int(shelf[op]))
        free += freed.pop(op, ())
    return shelf, shelves


@compiled
def _advance(
    plan: Plan,
    begin: int,
    stop: int,
    stream: Ints,
    rows: Floats,
    place: Longs,
    rate: Floats,
    shelf: Ints,
    kept: Floats,
    tail: Floats,
    start: Floats,
    end: Floats,
) -> None:
    """Work out the ops begin:stop, which take their numbers from rows[place].

    Args:
        shelf: [ops] where an op's end is kept in `kept`, [shelves, ranks], for those that need it.
        tail: [streams, ranks] the end of each stream's latest op.
        start, end: [stop - begin, ranks], or [stop - begin, 1].
    """
    ranks, whole = tail.shape[1], start.shape[1] == tail.shape[1]
    arrival = np.empty(ranks)
    for op in range(begin, stop):
        ready, values = tail[stream[op]], rows[place[op - begin]]
        for k in range(plan.need_stream.shape[1]):
            if plan.need_position[op, k] >= 0:
                needed = kept[shelf[plan.order[plan.need_stream[op, k], plan.need_position[op, k]]]]
                for rank in range(ranks):
                    ready[rank] = max(ready[rank], needed[rank])
        if whole:
            start[op - begin, :] = ready
        else:
            start[op - begin, 0] = _least(ready)
        if plan.kind[op] == COMPUTE:
            for rank in range(ranks):
                ready[rank] += values[rank]
        else:
            _exchange(plan, plan.pattern[op], values, rate, ready, arrival)
        if whole:
            end[op - begin, :] = ready
        else:
            end[op - begin, 0] = _most(ready)
        if shelf[op] >= 0:
            kept[shelf[op], :] = ready


@compiled
def _least(numbers: Floats) -> float:
    """Return the least; by four, as each comparison waits for the one before."""
    a = b = c = d = np.inf
    fours = len(numbers) // 4 * 4
    for k in range(0, fours, 4):
        a, b = min(a, numbers[k]), min(b, numbers[k + 1])
        c, d = min(c, numbers[k + 2]), min(d, numbers[k + 3])
    for k in range(fours, len(numbers)):
        a = min(a, numbers[k])
    return min(min(a, b), min(c, d))


@compiled
def _most(numbers: Floats) -> float:
    """Return the greatest, or 0."""
    a = b = c = d = 0.0
    fours = len(numbers) // 4 * 4
    for k in range(0, fours, 4):
        a, b = max(a, numbers[k]), max(b, numbers[k + 1])
        c, d = max(c, numbers[k + 2]), max(d, numbers[k + 3])
    for k in range(fours, len(numbers)):
        a = max(a, numbers[k])
    return max(max(a, b), max(c, d))


@compiled
def _exchange(plan: Plan, pattern: int, nbytes: Floats, rate: Floats, ready: Floats, arrival: Floats) -> None:
    """Turn the times at which ranks are ready for a permute into those at which it is done."""
    ranks = len(ready)
    for rank in range(ranks):
        to, flow = plan.dst[pattern, rank], pattern * ranks + rank
        arrival[rank] = ready[rank]
        if to >= 0:
            arrival[rank] = max(ready[rank], ready[to]) + plan.latency[flow]
            if nbytes[rank] > 0:
                arrival[rank] += nbytes[rank] / rate[flow]
    for rank in range(ranks):
        sender = plan.src[pattern, rank]
        ready[rank] = max(arrival[rank], arrival[sender]) if sender >= 0 else arrival[rank]
