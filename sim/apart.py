"""Apart: whether flows never hold each other back, whenever they run; then each has one rate, known beforehand.

A rank sends, and receives, one flow at a time on a stream. So a link never carries more at once than there are
(rank, stream) that send over it, nor more than there are that receive over it. Where that is one, it is *private*;
where it has room for as many of its fastest flow, it is *wide*. Where each link is one or the other, a flow's rate
is the narrowest private link of its route.
"""

import numpy as np

from sim.jit import compiled
from sim.program import Frozen
from sim.state import PERMUTE, Bools, Floats, Ints, Longs, Plan

CLEAR = 1e-9  # relative: what two numbers must differ by to be told apart whatever the rounding


def rates(frozen: Frozen) -> Floats | None:
    """Return the rate of each flow, [flows]; None where one might hold another back, or an op needs a later one."""
    plan, pad = frozen.bare, len(frozen.capacity) - 1
    if not _is_in_order(plan) or (plan.claim != 1).any():  # a claim rounds: (share / 3) * 3
        return None
    uses = _uses(plan)
    sending = _ranks_over(plan.dst, True, plan.route, plan.weight, uses, pad)
    receiving = _ranks_over(plan.src, False, plan.route, plan.weight, uses, pad)
    at_once = np.minimum(sending, receiving)
    rate, fastest = _rates(plan.dst, plan.route, frozen.capacity, at_once <= 1)
    with np.errstate(invalid="ignore"):
        is_wide = at_once * fastest * (1 + CLEAR) <= frozen.capacity[:-1]
    is_apart = bool(np.all((at_once <= 1) | is_wide)) and _are_clear(rate[plan.dst.reshape(-1) >= 0])
    return rate if is_apart else None


def _is_in_order(plan: Plan) -> bool:
    """Return whether each op needs earlier ones only."""
    known = plan.need_position >= 0
    needed = np.where(known, plan.order[plan.need_stream, plan.need_position], -1)
    return bool((needed.max(1, initial=-1) < np.arange(len(plan.kind))).all())


def _uses(plan: Plan) -> Longs:
    """Return which stream uses which pattern, [uses, 2]."""
    stream = np.empty(len(plan.kind), np.int64)
    for number, length in enumerate(plan.length):
        stream[plan.order[number, :length]] = number
    permutes = plan.kind == PERMUTE
    pairs = np.stack([stream[permutes], plan.pattern[permutes].astype(np.int64)], axis=1)
    return np.unique(pairs, axis=0)


def _are_clear(rate: Floats) -> bool:
    """Return whether rates that differ do so beyond rounding, and none is unlimited."""
    distinct = np.unique(rate)
    return bool(np.isfinite(distinct).all() and (np.diff(distinct) > CLEAR * distinct[1:]).all())


@compiled
def _ranks_over(ends: Ints, sends: bool, route: Ints, weight: Ints, uses: Longs, pad: int) -> Longs:
    """Count the (rank, stream) that use each link: that send, if `ends` is dst, or receive, if it is src."""
    ranks = ends.shape[1]
    last, count = np.full(pad, -1, np.int64), np.zeros(pad, np.int64)
    for rank in range(ranks):
        for use in range(len(uses)):
            stream, pattern = uses[use]
            if ends[pattern, rank] < 0:
                continue
            sender = rank if sends else ends[pattern, rank]
            flow, slot = pattern * ranks + sender, stream * ranks + rank
            for hop in range(route.shape[1]):
                link = route[flow, hop]
                if link != pad and last[link] != slot:
                    last[link] = slot
                    count[link] += weight[flow, hop]
    return count


@compiled
def _rates(dst: Ints, route: Ints, capacity: Floats, private: Bools) -> tuple[Floats, Floats]:
    """Return each flow's narrowest private link, and the fastest flow of each link."""
    rate, fastest = np.full(len(route), np.inf), np.zeros(len(private))
    flat = dst.ravel()
    for flow in range(len(route)):
        if flat[flow] < 0:
            continue
        for hop in range(route.shape[1]):
            link = route[flow, hop]
            if link < len(private) and private[link]:
                rate[flow] = min(rate[flow], capacity[link])
        for hop in range(route.shape[1]):
            link = route[flow, hop]
            if link < len(private):
                fastest[link] = max(fastest[link], rate[flow])
    return rate, fastest
