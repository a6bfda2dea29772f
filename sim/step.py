"""An instant: all that ends now, all that this sets off, and the new rates. Compiled.

A permute is a rendezvous, and a rendezvous is a comparison: the flow from s to d starts when both
slots have started an op and both counters are equal. An end of a permute is done on a rank when its
own send and its own receive are. In a folded program a rank may stand for the sender and for the receiver.
"""

import numpy as np

from sim.jit import compiled_step, inlined
from sim.maxmin import enter_links, leave_links, mark_dirty, set_end, set_rate, share_links
from sim.state import (
    BLOCK,
    COMPUTE,
    FINISHED,
    IDLE,
    LATENCY,
    PASSED,
    READY,
    TOUCHED,
    TRANSFER,
    WORKING,
    Floats,
    Ints,
    Plan,
    State,
    Work,
)

MOVED = -1  # stamp of a flow that is between two routes


@compiled_step
def step(plan: Plan, state: State, work: Work, now: float, horizon: float, most: int) -> tuple[float, float, int]:
    """Handle the instant `now`, and on through those before `horizon`, `most` at most.

    Return the last instant handled, when something ends next (inf: never, as things stand), and how many instants.
    """
    instants = 0
    while True:
        _end_phases(plan, state, work, now)
        _pass_and_start(plan, state, work, now)
        share_links(plan, state, work, now)
        due = _next_end(state, work)
        instants += 1
        if due >= horizon or instants == most:
            return now, due, instants
        now = due


@compiled_step
def change_capacity(plan: Plan, state: State, work: Work, link: int, capacity: float, now: float) -> float:
    """Let `link` carry `capacity` bytes per second from now on; return when something ends next."""
    state.capacity[link] = capacity
    mark_dirty(work, link)
    share_links(plan, state, work, now)
    return _next_end(state, work)


@compiled_step
def change_speed(plan: Plan, state: State, work: Work, rank: int, speed: float, now: float) -> float:
    """Let `rank` compute `speed` times as fast as planned from now on; return when something ends next."""
    state.speed[rank] = speed
    for stream in range(len(plan.length)):
        slot = stream * len(state.speed) + rank
        if state.phase[slot] == WORKING:
            set_rate(state, work, slot, speed, now)
    return _next_end(state, work)


@compiled_step
def change_routes(plan: Plan, state: State, work: Work, route: Ints, latency: Floats, now: float) -> float:
    """Let flows take new routes from now on, with what is left of them; return when something ends next.

    A flow under way waits for no latency again. The plan's own tables are overwritten.
    """
    for slot in range(len(state.phase)):
        if state.phase[slot] == TRANSFER and _differs(plan, route, state.flow[slot]):
            _take_off(plan, state, work, slot, now)
            work.flow_stamp[slot] = MOVED
    pad = len(state.capacity) - 1
    for flow in range(len(route)):
        plan.latency[flow] = latency[flow]
        for hop in range(route.shape[1]):
            plan.route[flow, hop] = route[flow, hop]
            plan.weight[flow, hop] = 1 if route[flow, hop] != pad else 0
    for slot in range(len(state.phase)):
        if work.flow_stamp[slot] == MOVED:
            work.flow_stamp[slot] = 0
            enter_links(plan, state, work, slot)
    share_links(plan, state, work, now)
    return _next_end(state, work)


@inlined
def _differs(plan: Plan, route: Ints, flow: int) -> bool:
    """Return whether `flow` has another route in the new table."""
    differs = False
    for hop in range(route.shape[1]):
        differs |= plan.route[flow, hop] != route[flow, hop]
    return differs


@inlined
def _take_off(plan: Plan, state: State, work: Work, slot: int, now: float) -> None:
    """Take what is left of the flow of `slot` off its links; what is over already stays so."""
    done = state.rate[slot] * (now - state.updated[slot])
    over = state.ends[slot] <= now
    state.remaining[slot] = 0.0 if over else max(0.0, state.remaining[slot] - done)
    state.updated[slot] = now
    state.rate[slot] = 0.0
    if not over:
        set_end(state, work, slot, np.inf)
    leave_links(plan, state, work, slot)
    flow, pad = state.flow[slot], len(state.capacity) - 1
    for hop in range(plan.route.shape[1]):
        link = plan.route[flow, hop]
        if link != pad:
            state.carried[link] -= state.remaining[slot] * plan.weight[flow, hop]


@inlined
def _next_end(state: State, work: Work) -> float:
    """Bring the least ends of the touched blocks up to date and return the least of all."""
    for k in range(work.counts[TOUCHED]):
        block = work.touched[k]
        work.is_touched[block] = False
        soonest = np.inf
        for slot in range(block * BLOCK, min((block + 1) * BLOCK, len(state.ends))):
            soonest = min(soonest, state.ends[slot])
        work.soonest[block] = soonest
    work.counts[TOUCHED] = 0
    least = np.inf
    for block in range(len(work.soonest)):
        least = min(least, work.soonest[block])
    return least


@inlined
def _end_phases(plan: Plan, state: State, work: Work, now: float) -> None:
    """End every phase that is due: a compute, a flow's latency, a flow's transfer."""
    for block in range(len(work.soonest)):
        if work.soonest[block] > now:
            continue
        for slot in range(block * BLOCK, min((block + 1) * BLOCK, len(state.ends))):
            if state.ends[slot] > now:
                continue
            set_end(state, work, slot, np.inf)
            if state.phase[slot] == WORKING:
                state.phase[slot] = IDLE
                _finish(work, slot)
            elif state.phase[slot] == LATENCY:
                _transfer(plan, state, work, slot, now)
            else:
                leave_links(plan, state, work, slot)
                _arrive(plan, state, work, slot)


@inlined
def _pass_and_start(plan: Plan, state: State, work: Work, now: float) -> None:
    """Pass finished ops and start those that may, until nothing more moves at `now`."""
    while True:
        if work.counts[FINISHED] > 0:
            work.counts[FINISHED] -= 1
            _pass(plan, state, work, work.finished[work.counts[FINISHED]], now)
        elif work.counts[READY] > 0:
            work.counts[READY] -= 1
            slot = work.ready[work.counts[READY]]
            work.queued[slot] = False
            _start(plan, state, work, slot, now)
        else:
            return


@inlined
def _finish(work: Work, slot: int) -> None:
    """Note that the op in flight in `slot` has ended."""
    work.finished[work.counts[FINISHED]] = slot
    work.counts[FINISHED] += 1


@inlined
def _pass(plan: Plan, state: State, work: Work, slot: int, now: float) -> None:
    """Move the counter of `slot` on, and queue the slots of this rank that may have waited for that."""
    ranks = plan.rows.shape[1]
    stream, rank = slot // ranks, slot % ranks
    op = plan.order[stream, state.counter[slot]]
    column = rank % state.end.shape[1]
    state.end[op, column] = max(state.end[op, column], now)
    state.counter[slot] += 1
    state.started[slot] = False
    work.counts[PASSED] += 1
    for k in range(plan.wake_start[op], plan.wake_start[op + 1]):
        other = plan.wake[k] * ranks + rank
        if not work.queued[other] and not state.started[other]:
            work.queued[other] = True
            work.ready[work.counts[READY]] = other
            work.counts[READY] += 1


@inlined
def _start(plan: Plan, state: State, work: Work, slot: int, now: float) -> None:
    """Start the next op of `slot` if there is one and all that it needs has passed on this rank."""
    ranks = plan.rows.shape[1]
    stream, rank = slot // ranks, slot % ranks
    if state.started[slot] or state.counter[slot] == plan.length[stream]:
        return
    op = plan.order[stream, state.counter[slot]]
    for k in range(plan.need_stream.shape[1]):
        if state.counter[plan.need_stream[op, k] * ranks + rank] <= plan.need_position[op, k]:
            return
    state.started[slot] = True
    column = rank % state.start.shape[1]
    state.start[op, column] = min(state.start[op, column], now)
    if plan.kind[op] == COMPUTE:
        _start_compute(plan, state, work, slot, op, now)
    else:
        _start_permute(plan, state, work, slot, op, now)


@inlined
def _start_compute(plan: Plan, state: State, work: Work, slot: int, op: int, now: float) -> None:
    """Start a compute, which ends at once if it costs nothing."""
    rank = slot % plan.rows.shape[1]
    cost, speed = plan.rows[plan.row[op], rank], state.speed[rank]
    if cost == 0:
        _finish(work, slot)
        return
    state.phase[slot] = WORKING
    state.remaining[slot] = cost
    state.rate[slot] = speed
    state.updated[slot] = now
    set_end(state, work, slot, now + cost / speed if speed > 0 else np.inf)


@inlined
def _start_permute(plan: Plan, state: State, work: Work, slot: int, op: int, now: float) -> None:
    """Start a rank's part of a permute, and each of its two flows whose other end is there."""
    rank, pattern = slot % plan.rows.shape[1], plan.pattern[op]
    receiver, sender = plan.dst[pattern, rank], plan.src[pattern, rank]
    state.parts[slot] = int(receiver >= 0) + int(sender >= 0)
    if state.parts[slot] == 0:
        _finish(work, slot)
        return
    if receiver >= 0:
        other = slot - rank + receiver
        if state.started[other] and state.counter[other] == state.counter[slot]:
            _launch(plan, state, work, slot, op, now)
    if sender >= 0 and sender != rank:
        other = slot - rank + sender
        if state.started[other] and state.counter[other] == state.counter[slot]:
            _launch(plan, state, work, other, op, now)


@inlined
def _launch(plan: Plan, state: State, work: Work, slot: int, op: int, now: float) -> None:
    """Let the flow that `slot` sends for `op` wait out its latency."""
    ranks = plan.rows.shape[1]
    rank = slot % ranks
    state.flow[slot] = plan.pattern[op] * ranks + rank
    state.remaining[slot] = plan.rows[plan.row[op], rank]
    latency = plan.latency[state.flow[slot]]
    if latency > 0:
        state.phase[slot] = LATENCY
        set_end(state, work, slot, now + latency)
    else:
        _transfer(plan, state, work, slot, now)


@inlined
def _transfer(plan: Plan, state: State, work: Work, slot: int, now: float) -> None:
    """Put the flow of `slot` on the links of its route; without bytes it has arrived."""
    if state.remaining[slot] == 0:
        _arrive(plan, state, work, slot)
        return
    state.phase[slot] = TRANSFER
    state.rate[slot] = 0.0
    state.updated[slot] = now
    enter_links(plan, state, work, slot)


@inlined
def _arrive(plan: Plan, state: State, work: Work, slot: int) -> None:
    """End the flow of `slot` at both its ends, and the permute of each end that waits for no more."""
    ranks = plan.rows.shape[1]
    rank, flow = slot % ranks, state.flow[slot]
    receiver = slot - rank + plan.dst[flow // ranks, rank]
    state.phase[slot] = IDLE
    state.parts[slot] -= 1
    state.parts[receiver] -= 1
    if state.parts[slot] == 0:
        _finish(work, slot)
    if receiver != slot and state.parts[receiver] == 0:
        _finish(work, receiver)
