"""Max-plus: end times without events, where flows never hold each other back (`sim/apart.py`).

A flow then has one rate, and times are a recurrence over ops with nothing in it but maxima and sums: one pass
over the ranks an op. The bits are those of the engine.
"""

import numpy as np

from sim.engine import Progress, Record, Spans
from sim.jit import compiled
from sim.program import Frozen
from sim.rows import table
from sim.state import COMPUTE, Floats, Ints, Longs, Plan
from sim.traffic import link_bytes

BATCH = 1 << 22  # numbers of rows that are made at once


def recur(frozen: Frozen, rate: Floats, record: Record = "full", progress: Progress | None = None) -> Spans:
    """Return when each op runs.

    Args:
        rate: [flows] bytes per second, as `apart.rates` finds them.
    """
    plan, ops, columns = frozen.bare, len(frozen.bare.kind), frozen.ranks if record == "full" else 1
    start, end = np.full((ops, columns), np.inf), np.zeros((ops, columns))
    shelf, shelves = _shelves(plan)
    kept, tail = np.zeros((shelves, frozen.ranks)), np.zeros((len(plan.length), frozen.ranks))
    stream = _streams(plan)
    batch = max(1, BATCH // frozen.ranks)
    for begin in range(0, ops, batch):
        stop = min(begin + batch, ops)
        used, place = np.unique(plan.row[begin:stop], return_inverse=True)
        rows = table([frozen.rows[row] for row in used], frozen.ranks)
        _advance(plan, begin, stop, stream, rows, place, rate, shelf, kept, tail, start, end)
        if progress is not None:
            progress(stop / ops, float(tail.max()))
    whole = record == "full"
    return Spans(
        start=start if whole else start[:, 0],
        end=end if whole else end[:, 0],
        makespan=float(tail.max(initial=0.0)),
        link_bytes=link_bytes(frozen),
        instants=0,
        how="max-plus",
    )


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
    """
    ranks, columns = tail.shape[1], start.shape[1]
    arrival = np.empty(ranks)
    for op in range(begin, stop):
        ready, values = tail[stream[op]], rows[place[op - begin]]
        for k in range(plan.need_stream.shape[1]):
            if plan.need_position[op, k] >= 0:
                needed = kept[shelf[plan.order[plan.need_stream[op, k], plan.need_position[op, k]]]]
                for rank in range(ranks):
                    ready[rank] = max(ready[rank], needed[rank])
        for rank in range(ranks):
            column = rank % columns
            start[op, column] = min(start[op, column], ready[rank])
        if plan.kind[op] == COMPUTE:
            for rank in range(ranks):
                ready[rank] += values[rank]
        else:
            _exchange(plan, plan.pattern[op], values, rate, ready, arrival)
        for rank in range(ranks):
            column = rank % columns
            end[op, column] = max(end[op, column], ready[rank])
        if shelf[op] >= 0:
            kept[shelf[op], :] = ready


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
