"""Why nothing moves: who waits for whom, in one line, as a cycle or a chain."""

from typing import NamedTuple

from sim.program import Frozen
from sim.state import COMPUTE, IDLE, WORKING, State

NOBODY = -1


class Wait(NamedTuple):
    """One op that is in flight or next on a rank, what it waits for, and whose: another slot, or NOBODY."""

    stream: int
    rank: int
    op: int
    reason: str
    named: str = ""
    slot: int = NOBODY
    other: int = NOBODY

    def __str__(self) -> str:
        """Return the wait as a phrase."""
        return f"{self.who} waits for {self.reason}"

    @property
    def who(self) -> str:
        """Return the op and its rank."""
        return f"{self.named or f'op {self.op} on stream {self.stream}'} rank {self.rank}"


class StallError(RuntimeError):
    """Nothing can ever end, and not all is done. `waits` lists every wait, causes first; `cycle` those in a ring.

    It is a result, of a run that was asked for rightly: a command says it in its own words, and its status is 1.
    """

    is_answer = True

    def __init__(self, now: float, waits: list[Wait]) -> None:
        """Say what stands still at `now` seconds."""
        self.now, self.waits = now, waits
        self.cycle = find_cycle(waits)
        if self.cycle:
            text = ", which waits for ".join(wait.who for wait in (*self.cycle, self.cycle[0]))
            super().__init__(f"nothing moves after {now:.9g} s: {text.replace(', which waits', ' waits', 1)}")
            return
        shown = "; ".join(str(wait) for wait in waits[:3])
        more = f"; and {len(waits) - 3} more" if len(waits) > 3 else ""
        super().__init__(f"nothing moves after {now:.9g} s: {shown}{more}")


def find_cycle(waits: list[Wait]) -> list[Wait]:
    """Return the first ring of waits, each waiting for the next and the last for the first; [] if there is none."""
    by_slot = {wait.slot: wait for wait in waits if wait.slot != NOBODY}
    seen: set[int] = set()
    for slot in by_slot:
        path: list[int] = []
        while slot in by_slot and slot not in seen:
            seen.add(slot)
            path.append(slot)
            slot = by_slot[slot].other
        if slot in path:
            return [by_slot[other] for other in path[path.index(slot) :]]
    return []


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
        reason, other = _reason(frozen, state, slot, op)
        wait = Wait(stream, rank, op, reason, frozen.name(op), slot, other)
        (others if state.phase[slot] == IDLE else causes).append(wait)
    return causes + others


def _reason(frozen: Frozen, state: State, slot: int, op: int) -> tuple[str, int]:
    """Say what the op in flight or next in `slot` waits for, and in which slot that is."""
    plan, rank = frozen.plan, slot % frozen.ranks
    if state.phase[slot] == WORKING:
        return f"its rank, whose speed is {state.speed[rank]:g}", NOBODY
    if state.phase[slot] != IDLE:
        return _closed_link(frozen, state, slot), NOBODY
    if not state.started[slot]:
        return _need(frozen, state, op, rank)
    if plan.kind[op] == COMPUTE:
        return "nothing", NOBODY
    pattern = plan.pattern[op]
    for end in (plan.dst[pattern, rank], plan.src[pattern, rank]):
        if end >= 0 and not _is_there(state, slot - rank + end, slot):
            other = slot - rank + int(end)
            return f"rank {end}, which is at {_place(frozen, state, other)}", other
    source = int(plan.src[pattern, rank])
    return f"the flow from rank {source}", slot - rank + source


def _is_there(state: State, other: int, slot: int) -> bool:
    """Return whether slot `other` has started the same position as `slot`, or passed it."""
    behind = state.counter[other] < state.counter[slot]
    return bool(not behind and (state.started[other] or state.counter[other] > state.counter[slot]))


def _need(frozen: Frozen, state: State, op: int, rank: int) -> tuple[str, int]:
    """Name the first op that `op` needs and that has not passed on `rank`, and its slot."""
    plan = frozen.plan
    for stream, position in zip(plan.need_stream[op], plan.need_position[op], strict=True):
        slot = int(stream) * frozen.ranks + rank
        if state.counter[slot] <= position:
            return f"{frozen.name(int(plan.order[stream, position]))} rank {rank}", slot
    return "nothing", NOBODY


def _place(frozen: Frozen, state: State, slot: int) -> str:
    """Name the op that is in flight or next in `slot`."""
    stream, position = slot // frozen.ranks, int(state.counter[slot])
    if position == frozen.plan.length[stream]:
        return f"the end of stream {stream}"
    op = int(frozen.plan.order[stream, position])
    return f"op {op}" if frozen.label is None else frozen.label(op)


def _closed_link(frozen: Frozen, state: State, slot: int) -> str:
    """Name the narrowest link on the way of the flow that `slot` sends."""
    route = frozen.plan.route[state.flow[slot]]
    link = int(min(route, key=lambda number: state.capacity[number]))
    tail, head = frozen.network.links[link]
    return f"link {tail} -> {head}, whose capacity is {state.capacity[link]:g} B/s"
