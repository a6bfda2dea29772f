"""Max-min fair sharing: exact, by progressive filling, for the flows that a change can reach.

All flows grow alike, or each by its claim, until some link is full; the flows of the full links keep the
rate they have, the others grow on (Bertsekas and Gallager, "Data Networks", 1992, section 6.5.2).

Only the connected components of dirty links are solved: flows and links are connected when one is on
the other. A link adds up its integer weights and claims before it multiplies, once a round: one flow of
weight 3, which stands for three, and three flows of weight 1 give the same bits.
"""

import numpy as np

from sim.jit import inlined
from sim.state import BLOCK, DIRTY, STAMP, TOLERANCE, TOUCHED, Longs, Plan, State, Work


@inlined
def set_end(state: State, work: Work, slot: int, end: float) -> None:
    """Let the phase of `slot` end at `end` and remember that its block's least end is out of date."""
    state.ends[slot] = end
    block = slot // BLOCK
    if not work.is_touched[block]:
        work.is_touched[block] = True
        work.touched[work.counts[TOUCHED]] = block
        work.counts[TOUCHED] += 1


@inlined
def mark_dirty(work: Work, link: int) -> None:
    """Note that the flows or the capacity of `link` changed."""
    if not work.is_dirty[link]:
        work.is_dirty[link] = True
        work.dirty[work.counts[DIRTY]] = link
        work.counts[DIRTY] += 1


@inlined
def set_rate(state: State, work: Work, slot: int, rate: float, now: float) -> None:
    """Let `slot` work at `rate` from `now` on, having worked at its old rate until now."""
    if rate == state.rate[slot] or state.ends[slot] <= now:
        return  # what is over already must not lose its end to a rounding error
    done = state.rate[slot] * (now - state.updated[slot])
    state.remaining[slot] = max(0.0, state.remaining[slot] - done)
    state.updated[slot] = now
    state.rate[slot] = rate
    set_end(state, work, slot, now + state.remaining[slot] / rate if rate > 0 else np.inf)


@inlined
def enter_links(plan: Plan, state: State, work: Work, slot: int) -> None:
    """Put the flow of `slot` on the links of its route."""
    flow, hops, pad = state.flow[slot], plan.route.shape[1], len(state.capacity) - 1
    for hop in range(hops):
        link = plan.route[flow, hop]
        if link == pad:
            break
        entry, old = slot * hops + hop, state.first[link]
        state.first[link] = entry
        state.after[entry] = old
        state.before[entry] = -1
        if old >= 0:
            state.before[old] = entry
        state.carried[link] += state.remaining[slot] * plan.weight[flow, hop]
        mark_dirty(work, link)


@inlined
def leave_links(plan: Plan, state: State, work: Work, slot: int) -> None:
    """Take the flow of `slot` off the links of its route."""
    flow, hops, pad = state.flow[slot], plan.route.shape[1], len(state.capacity) - 1
    for hop in range(hops):
        link = plan.route[flow, hop]
        if link == pad:
            break
        entry = slot * hops + hop
        after, before = state.after[entry], state.before[entry]
        if before >= 0:
            state.after[before] = after
        else:
            state.first[link] = after
        if after >= 0:
            state.before[after] = before
        mark_dirty(work, link)


@inlined
def share_links(plan: Plan, state: State, work: Work, now: float) -> None:
    """Give every flow that a dirty link can reach its max-min fair rate; no link is dirty then."""
    work.counts[STAMP] += 1
    for k in range(work.counts[DIRTY]):
        link = work.dirty[k]
        work.is_dirty[link] = False
        if work.link_stamp[link] != work.counts[STAMP] and state.first[link] >= 0:
            links, flows = _gather(plan, state, work, link)
            _fill(plan, state, work, links, flows, now)
    work.counts[DIRTY] = 0


@inlined
def _gather(plan: Plan, state: State, work: Work, link: int) -> tuple[int, int]:
    """Collect the component of `link` in work.links and work.flows; return how many of each."""
    stamp, hops, pad = work.counts[STAMP], plan.route.shape[1], len(state.capacity) - 1
    links, flows, looked_at = 1, 0, 0
    work.links[0] = link
    work.link_stamp[link] = stamp
    while looked_at < links:
        entry = state.first[work.links[looked_at]]
        looked_at += 1
        while entry >= 0:
            slot = entry // hops
            entry = state.after[entry]
            if work.flow_stamp[slot] == stamp:
                continue
            work.flow_stamp[slot] = stamp
            work.flows[flows] = slot
            flows += 1
            for hop in range(hops):
                other = plan.route[state.flow[slot], hop]
                if other != pad and work.link_stamp[other] != stamp:
                    work.link_stamp[other] = stamp
                    work.links[links] = other
                    links += 1
    return links, flows


@inlined
def _fill(plan: Plan, state: State, work: Work, links: int, flows: int, now: float) -> None:
    """Fill the component in work.links and work.flows, one round for each distinct share."""
    for x in range(links):
        link = work.links[x]
        work.used[link] = 0
        work.left[link] = state.capacity[link]
    _add_claims(plan, state, work.flows, 0, flows, work.used)
    while flows > 0:
        share = np.inf
        for x in range(links):
            link = work.links[x]
            if work.used[link] > 0:
                share = min(share, work.left[link] / work.used[link])
        for x in range(links):
            link = work.links[x]
            full = share * (1 + TOLERANCE)
            work.tight[link] = work.used[link] > 0 and work.left[link] / work.used[link] <= full
        growing = _move_held_back(plan, state, work, flows)
        _add_claims(plan, state, work.flows, growing, flows, work.gone)
        for x in range(links):
            link = work.links[x]
            work.left[link] = max(0.0, work.left[link] - share * work.gone[link])
            work.used[link] -= work.gone[link]
            work.gone[link] = 0
        for x in range(growing, flows):
            slot = work.flows[x]
            set_rate(state, work, slot, share * plan.claim[state.flow[slot]], now)
        flows = growing


@inlined
def _add_claims(plan: Plan, state: State, flows: Longs, begin: int, end: int, total: Longs) -> None:
    """Add the claims of flows[begin:end] to `total` of each link they cross."""
    pad = len(state.capacity) - 1
    for x in range(begin, end):
        flow = state.flow[flows[x]]
        claim = plan.claim[flow]
        for hop in range(plan.route.shape[1]):
            link = plan.route[flow, hop]
            if link != pad:
                total[link] += plan.weight[flow, hop] * claim


@inlined
def _move_held_back(plan: Plan, state: State, work: Work, flows: int) -> int:
    """Move the flows that cross a tight link behind the others; return how many others."""
    growing, x = flows, 0
    while x < growing:
        slot = work.flows[x]
        flow, held_back = state.flow[slot], False
        for hop in range(plan.route.shape[1]):
            if plan.weight[flow, hop] > 0 and work.tight[plan.route[flow, hop]]:
                held_back = True
        if held_back:
            growing -= 1
            work.flows[x] = work.flows[growing]
            work.flows[growing] = slot
        else:
            x += 1
    return growing
