"""The arrays of a run: the plan, which never changes, and the state, which the step advances.

A *slot* is one (stream, rank): `slot = stream * ranks + rank`. Streams are in order, so a slot holds at
most one op at a time: the rank's compute, or the flow that the rank sends. The whole dependency state
of a run is one program counter a slot: op o is done on rank r exactly when
`counter[stream(o) * ranks + r] > position(o)`.

A *flow* is one sender of one permute pattern: `flow = pattern * ranks + sender`.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.int8]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

COMPUTE, PERMUTE = 0, 1  # kinds of op
IDLE, WORKING, LATENCY, TRANSFER = 0, 1, 2, 3  # phases of a slot
READY, FINISHED, DIRTY, TOUCHED, STAMP, PASSED = 0, 1, 2, 3, 4, 5  # places in Work.counts

BLOCK = 64  # slots that share one entry of Work.soonest
TOLERANCE = 1e-12  # relative: links whose shares lie closer together are full at once


class Plan(NamedTuple):
    """A program on a network, as tables. Nothing here changes during a run."""

    kind: Bytes  # [ops] COMPUTE or PERMUTE
    pattern: Ints  # [ops] a permute's row of dst and src
    row: Ints  # [ops] an op's row of rows
    rows: Floats  # [rows, ranks] seconds of a compute, bytes of a permute
    order: Ints  # [streams, longest] the op at each position of a stream
    length: Ints  # [streams]
    need_stream: Ints  # [ops, needs] an op starts on a rank when, for each need,
    need_position: Ints  # [ops, needs] the rank's counter on that stream is past that position
    wake_start: Ints  # [ops + 1] passing an op may set off wake[wake_start[op]:wake_start[op + 1]]
    wake: Ints  # streams
    dst: Ints  # [patterns, ranks] the receiver of each rank's flow, -1: none
    src: Ints  # [patterns, ranks] the sender of each rank's inward flow, -1: none
    route: Ints  # [flows, hops] links, padded at the end with the last link (infinitely wide)
    weight: Ints  # [flows, hops] how many such flows the link carries: 1 unless folded
    claim: Longs  # [flows] a link divides itself among its flows in proportion: 1 unless given
    latency: Floats  # [flows] seconds


class State(NamedTuple):
    """Where a run stands."""

    counter: Longs  # [slots] position of the op that is next or in flight
    started: Bools  # [slots] whether that op is in flight
    parts: Longs  # [slots] own send and receive still to end (0-2)
    phase: Bytes  # [slots]
    flow: Longs  # [slots] the flow in flight
    remaining: Floats  # [slots] seconds of compute at speed 1, or bytes, at time `updated`
    rate: Floats  # [slots] remaining per second
    updated: Floats  # [slots]
    ends: Floats  # [slots] when the phase ends, inf: not as things stand
    speed: Floats  # [ranks] 1: as planned
    capacity: Floats  # [links + 1] bytes per second
    carried: Floats  # [links + 1] bytes
    first: Longs  # [links + 1] the flows now on each link are a doubly linked list of
    after: Longs  # [slots * hops] entries slot * hops + hop; -1 ends it
    before: Longs  # [slots * hops]
    start: Floats  # [ops, ranks], or [ops, 1] for the earliest rank
    end: Floats  # [ops, ranks], or [ops, 1] for the latest rank


class Work(NamedTuple):
    """Lists and marks of one step; the lists are empty between steps."""

    counts: Longs  # lengths of the lists, the solver's stamp, and how many (op, rank) have passed
    ready: Longs  # slots whose next op may be able to start
    queued: Bools  # [slots] stands in ready
    finished: Longs  # slots whose op has ended
    dirty: Longs  # links whose flows or capacity changed
    is_dirty: Bools  # [links + 1]
    touched: Longs  # blocks of slots in which an end changed
    is_touched: Bools  # [blocks]
    soonest: Floats  # [blocks] the least end
    links: Longs  # links of the component at hand
    flows: Longs  # slots of the flows of the component at hand
    link_stamp: Longs  # [links + 1] the last solve that saw it
    flow_stamp: Longs  # [slots]
    used: Longs  # [links + 1] total claim of the flows not yet given a rate
    gone: Longs  # [links + 1] total claim of those given one in this round
    left: Floats  # [links + 1] capacity not yet given away
    tight: Bools  # [links + 1] a link that decides this round


def new_state(plan: Plan, capacity: Floats, columns: int) -> State:
    """Return the state before the first instant; spans are kept in `columns` columns (ranks, or 1)."""
    ranks, links, hops, ops = plan.rows.shape[1], len(capacity), plan.route.shape[1], len(plan.kind)
    slots = len(plan.length) * ranks
    return State(
        counter=np.zeros(slots, np.int64),
        started=np.zeros(slots, np.bool_),
        parts=np.zeros(slots, np.int64),
        phase=np.full(slots, IDLE, np.int8),
        flow=np.zeros(slots, np.int64),
        remaining=np.zeros(slots),
        rate=np.zeros(slots),
        updated=np.zeros(slots),
        ends=np.full(slots, np.inf),
        speed=np.ones(ranks),
        capacity=np.array(capacity, np.float64),
        carried=np.zeros(links),
        first=np.full(links, -1, np.int64),
        after=np.full(slots * hops, -1, np.int64),
        before=np.full(slots * hops, -1, np.int64),
        start=np.full((ops, columns), np.inf),
        end=np.zeros((ops, columns)),
    )


def new_work(plan: Plan, capacity: Floats) -> Work:
    """Return empty lists, but for `ready`, which holds every slot: the first step starts what it can."""
    slots, links = len(plan.length) * plan.rows.shape[1], len(capacity)
    blocks = -(-slots // BLOCK)
    work = Work(
        counts=np.zeros(6, np.int64),
        ready=np.arange(slots, dtype=np.int64),
        queued=np.ones(slots, np.bool_),
        finished=np.zeros(slots, np.int64),
        dirty=np.zeros(links, np.int64),
        is_dirty=np.zeros(links, np.bool_),
        touched=np.zeros(blocks, np.int64),
        is_touched=np.zeros(blocks, np.bool_),
        soonest=np.full(blocks, np.inf),
        links=np.zeros(links, np.int64),
        flows=np.zeros(slots, np.int64),
        link_stamp=np.zeros(links, np.int64),
        flow_stamp=np.zeros(slots, np.int64),
        used=np.zeros(links, np.int64),
        gone=np.zeros(links, np.int64),
        left=np.zeros(links),
        tight=np.zeros(links, np.bool_),
    )
    work.counts[READY] = slots
    return work
