"""Why nothing moves: who waits for whom, in one line."""

from typing import NamedTuple

from sim.program import Frozen
from sim.state import COMPUTE, IDLE, WORKING, State


class Wait(NamedTuple):
    """One op that is in flight or next on a rank, and what it waits for."""

    stream: int
    rank: int
    op: int
    reason: str

    def __str__(self) -> str:
        """Return the wait as a phrase."""
        return f"op {self.op} on stream {self.stream} rank {self.rank} waits for {self.reason}"


class StallError(RuntimeError):
    """Nothing can ever end, and not all is done. `waits` lists every wait, causes first."""

    def __init__(self, now: float, waits: list[Wait]) -> None:
        """Say what stands still at `now` seconds."""
        self.now, self.waits = now, waits
        shown = "; ".join(str(wait) for wait in waits[:3])
        more = f"; and {len(waits) - 3} more" if len(waits) > 3 else ""
        super().__init__(f"nothing moves after {now:.9g} s: {shown}{more}")


def find_waits(frozen: Frozen, state: State) -> list[Wait]:
    """Return the wait of every slot that is not at its end: slots that stand still in flight first."""
    plan = frozen.plan
    causes: list[Wait] = []
    others: list[Wait] = []
    for slot, position in enumerate(state.counter.tolist()):
        stream, rank = divmod(slot, frozen.ranks)
        if position == plan.length[stream]:
            continue
        op = int(plan.order[stream, position])
        wait = Wait(stream, rank, op, _reason(frozen, state, slot, op))
        (others if state.phase[slot] == IDLE else causes).append(wait)
    return causes + others


def _reason(frozen: Frozen, state: State, slot: int, op: int) -> str:
    """Say what the op in flight or next in `slot` waits for."""
    plan, rank = frozen.plan, slot % frozen.ranks
    if state.phase[slot] == WORKING:
        return f"its rank, whose speed is {state.speed[rank]:g}"
    if state.phase[slot] != IDLE:
        return _closed_link(frozen, state, slot)
    if not state.started[slot]:
        return _need(frozen, state, op, rank)
    if plan.kind[op] == COMPUTE:
        return "nothing"
    pattern = plan.pattern[op]
    for end in (plan.dst[pattern, rank], plan.src[pattern, rank]):
        if end >= 0 and not _is_there(state, slot - rank + end, slot):
            return f"rank {end}, which is at {_place(frozen, state, slot - rank + end)}"
    return f"the flow from rank {plan.src[pattern, rank]}"


def _is_there(state: State, other: int, slot: int) -> bool:
    """Return whether slot `other` has started the same position as `slot`, or passed it."""
    behind = state.counter[other] < state.counter[slot]
    return bool(not behind and (state.started[other] or state.counter[other] > state.counter[slot]))


def _need(frozen: Frozen, state: State, op: int, rank: int) -> str:
    """Name the first op that `op` needs and that has not passed on `rank`."""
    plan = frozen.plan
    for stream, position in zip(plan.need_stream[op], plan.need_position[op], strict=True):
        if state.counter[stream * frozen.ranks + rank] <= position:
            return f"op {plan.order[stream, position]} on stream {stream} rank {rank}"
    return "nothing"


def _place(frozen: Frozen, state: State, slot: int) -> str:
    """Name the op that is in flight or next in `slot`."""
    stream, position = slot // frozen.ranks, int(state.counter[slot])
    if position == frozen.plan.length[stream]:
        return f"the end of stream {stream}"
    return f"op {frozen.plan.order[stream, position]}"


def _closed_link(frozen: Frozen, state: State, slot: int) -> str:
    """Name the narrowest link on the way of the flow that `slot` sends."""
    route = frozen.plan.route[state.flow[slot]]
    link = int(min(route, key=lambda number: state.capacity[number]))
    tail, head = frozen.network.links[link]
    return f"link {tail} -> {head}, whose capacity is {state.capacity[link]:g} B/s"
