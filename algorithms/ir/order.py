"""The executor's fixed order of ops, which also defines peak memory: communication is posted early, waited late.

Compute ops keep the order of the program. A communication op is posted as soon as its inputs are there, its
stream has posted all before it, and the blocks it overwrites were read; it is waited for just before the first
op that reads what it brings. A view is there as soon as what it shows is. The order is the same on every rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from algorithms.ir.expr import Const, Expr, Ints, ScheduleError
from algorithms.ir.schedule import Op, Schedule, Value
from algorithms.ir.tokens import Count
from algorithms.ops import is_view

RECENT = 8  # shards whose rows are kept


class Step(NamedTuple):
    """One line of the order: run a compute op, post a communication op, or wait for one."""

    action: str
    op: Op


@lru_cache(maxsize=1)
def shown(schedule: Schedule) -> Mapping[int, tuple[Value, ...]]:
    """What a view shows parts of, views themselves and what these show, by value id; other values show nothing."""
    found: dict[int, tuple[Value, ...]] = {}
    for op in schedule.ops:
        if is_view(op):
            below = {v.id: v for x in op.inputs for v in (x, *found.get(x.id, ()))}
            found |= dict.fromkeys((v.id for v in op.outputs), tuple(below.values()))
    return found


def touched(schedule: Schedule, values: Iterable[Value]) -> dict[int, Value]:
    """Values and all that they show, by id: what must be in memory while they are read."""
    if not (through := shown(schedule)):
        return {v.id: v for v in values}
    return {v.id: v for x in values for v in (x, *through.get(x.id, ()))}


def readers(schedule: Schedule) -> dict[int, list[Op]]:
    """The ops that read each value, itself or through a view, by value id."""
    found: dict[int, list[Op]] = {}
    for op in schedule.ops:
        for v in touched(schedule, op.inputs):
            found.setdefault(v, []).append(op)
    return found


@lru_cache(maxsize=1)  # asked for again and again of the schedule at hand
def overwrites(schedule: Schedule) -> Mapping[int, tuple[Op, ...]]:
    """Law S9's edges: the readers that must be done before a receive reuses their buffer, by op id.

    A chain, the permutes of one stream that pass on one value, or views of it, owns `buffers` received blocks: block t
    lands where block t - buffers was. A second tour of the same value goes on where the first one ended. The gathers of
    one stream that say so are a chain, too.

    Raises:
        ScheduleError: a block is read by the op that overwrites it, or later in the program.
    """
    reads, edges = readers(schedule), dict[int, tuple[Op, ...]]()
    first, chains = dict[int, int](), dict[object, list[Op]]()
    for op in schedule.ops:
        n = op.params.get("buffers")
        if n is None:
            continue
        received = chains.setdefault(_chain(schedule, op, first), [])
        if len(received) >= n:
            reading = {reader.id: reader for v in received[-n].outputs for reader in reads.get(v.id, ())}
            edges[op.id] = tuple(reading.values())
            _read_before(schedule, op, edges[op.id])
        received.append(op)
    return edges


def _chain(schedule: Schedule, op: Op, first: dict[int, int]) -> object:
    """What tells chains apart: the kind and stream, and of permutes the value that was first passed on."""
    if op.kind != "permute":
        return op.kind, op.stream
    passed = next(reversed(touched(schedule, op.inputs[:1])))
    first[op.outputs[0].id] = origin = first.get(passed, passed)
    return origin, op.stream


def _read_before(schedule: Schedule, op: Op, readers: tuple[Op, ...]) -> None:
    for reader in readers:
        if reader.id >= op.id:
            raise ScheduleError(
                f"S9: {schedule.name}: op {reader.id} {reader.kind} reads a block whose buffer op {op.id} reuses: "
                f"read it earlier, or give the {op.kind} more than buffers={op.params['buffers']}"
            )


@lru_cache(maxsize=1)
def steps(schedule: Schedule) -> tuple[Step, ...]:
    """Return the fixed order of a schedule."""
    return tuple(_Order(schedule).lines())


class _Order:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.blocked = schedule, overwrites(schedule)
        self.source = {v.id: op for op in schedule.ops for v in op.outputs}
        self.queues: dict[object, list[Op]] = {}
        for op in reversed(schedule.ops):
            if op.stream is not None:
                self.queues.setdefault(op.stream, []).append(op)
        self.views = self.showing()
        self.done, self.posted = set[int](), set[int]()
        self.out: list[Step] = []

    def showing(self) -> dict[int, list[Op]]:
        """The views of what each op writes."""
        views: dict[int, list[Op]] = {}
        for view in filter(is_view, self.schedule.ops):
            for op in {self.source[v.id].id for v in view.inputs}:
                views.setdefault(op, []).append(view)
        return views

    def lines(self) -> list[Step]:
        self.post_ready()
        for op in self.schedule.ops:
            if op.stream is not None or is_view(op):
                continue
            for source in [self.source[v.id] for v in op.inputs]:
                if source.id not in self.done:
                    self.finish(source)
            self.post_ready()
            self.out.append(Step("run", op))
            self.end(op)
        for op in self.schedule.ops:
            self.finish(op)
        return self.out

    def post_ready(self) -> None:
        for queue in self.queues.values():
            while queue and self.ready(queue[-1]):
                self.post(queue.pop())

    def end(self, op: Op) -> None:
        """Note that an op is done: post what waited for it, and show what it wrote."""
        self.done.add(op.id)
        self.post_ready()
        for view in self.views.get(op.id, ()):
            if view.id not in self.done and self.ready(view):
                self.out.append(Step("run", view))
                self.end(view)

    def before(self, op: Op) -> Iterator[Op]:
        """The ops that must be done before one starts."""
        yield from (self.source[v.id] for v in op.inputs)
        yield from self.blocked.get(op.id, ())

    def ready(self, op: Op) -> bool:
        for v in op.inputs:
            if self.source[v.id].id not in self.done:
                return False
        return all([b.id in self.done for b in self.blocked.get(op.id, ())])

    def post(self, op: Op) -> None:
        self.out.append(Step("post", op))
        self.posted.add(op.id)

    def finish(self, op: Op) -> None:
        """Bring a communication op, or a view, to its end, and whatever it waits for first."""
        waiting = [op]
        while waiting:
            top = waiting[-1]
            if top.id in self.done or (top.stream is None and not is_view(top)):
                waiting.pop()
            elif top.id in self.posted:
                self.out.append(Step("wait", waiting.pop()))
                self.end(top)
            else:
                head = top if top.stream is None else self.queues[top.stream][-1]
                missing = [b for b in self.before(head) if b.id not in self.done and (b.stream or is_view(b))]
                if missing:
                    waiting.extend(missing)
                else:
                    self.post(self.queues[head.stream].pop())


def lifetimes(schedule: Schedule) -> Iterator[tuple[Step, list[Value], list[Value]]]:
    """List the values that begin and that end to live at each line of the fixed order.

    Loaded shards and results stay; any other value lives from the line that posts or runs its op until its
    last reader is done, and the last reader of what shows it.
    """
    left: dict[int, int] = {}  # readers that are not done, of values that are to end
    for op in schedule.ops:
        for number in touched(schedule, op.inputs):
            left[number] = left.get(number, 0) + 1
    shards = [v for op in schedule.ops if op.kind == "load" for v in op.outputs]
    for kept in touched(schedule, (*schedule.results.values(), *shards)):
        left[kept] = left.get(kept, 0) + 1  # one that never is
    for step in steps(schedule):
        action, op = step
        if action == "post":
            yield step, list(op.outputs), []
            continue
        here = touched(schedule, op.inputs)
        for read in here:
            left[read] -= 1
        here |= {v.id: v for v in op.outputs}
        dead = [v for number, v in here.items() if not left.get(number, 0)]
        yield step, list(op.outputs) if action == "run" else [], dead


def live_bytes(schedule: Schedule) -> Iterator[Ints | int]:
    """Bytes of live values at each line of the fixed order that begins some, one entry a rank or one for all."""
    size, views = _Sizes(schedule), shown(schedule)
    now: Ints | int = 0
    for (action, _), born, dead in lifetimes(schedule):
        if action != "wait":
            now = now + size.total([v for v in born if v.id not in views])
            yield now
        if dead:
            now = now - size.total([v for v in dead if v.id not in views])


class _Sizes:
    """Bytes of values on every rank; the rows of the shards met last are kept, as many values have them."""

    def __init__(self, schedule: Schedule) -> None:
        self.grid = schedule.mesh.grid()
        self.rows: dict[int, tuple[object, Ints]] = {}

    def total(self, values: list[Value]) -> Ints | int:
        """Bytes of values together, on the open grid or one number for all."""
        found: Ints | int = 0
        wide: dict[int, tuple[Ints, int]] = {}  # values of equal rows are multiplied out together
        for v in values:
            rows = v.type.rows
            if isinstance(rows, Const):
                found += rows.value * v.type.row_nbytes
            else:
                held = self.held(rows)
                wide[id(held)] = held, wide.get(id(held), (held, 0))[1] + v.type.row_nbytes
        for held, nbytes in wide.values():
            found = found + held * nbytes
        return found

    def held(self, rows: Expr) -> Ints:
        key = rows.tokens if isinstance(rows, Count) else rows
        if id(key) not in self.rows:
            if len(self.rows) == RECENT:
                del self.rows[next(iter(self.rows))]
            self.rows[id(key)] = key, rows.at(self.grid)
        return self.rows[id(key)][1]


class Live(NamedTuple):
    """A value that a rank holds, the op that wrote it, and its bytes."""

    value: Value
    op: Op
    nbytes: int


def live_at_peak(schedule: Schedule, rank: int) -> tuple[Op, tuple[Live, ...]]:
    """Return the op at which a rank holds most, the first such, and what it then holds."""
    at, most, now = schedule.mesh.of_rank(rank), int(peak_bytes(schedule)[rank]), 0
    live: dict[int, Live] = {}
    for (_, op), born, dead in lifetimes(schedule):
        for v in born:
            live[v.id] = Live(v, op, 0 if is_view(op) else int(v.type.nbytes(at)))
            now += live[v.id].nbytes
        if now == most:
            return op, tuple(x for x in live.values() if not is_view(x.op))
        for v in dead:
            now -= live.pop(v.id).nbytes
    raise AssertionError("a rank holds less than at its peak at every line")


@lru_cache(maxsize=1)  # asked for by a timeline, and by what shows it
def peak_bytes(schedule: Schedule) -> Ints:
    """The most bytes of live values on each rank, shape (P,), not to be written; a kernel's own are not counted."""
    peak: Ints | int = 0
    for level in live_bytes(schedule):
        peak = max(peak, level) if isinstance(peak, int) and isinstance(level, int) else np.maximum(peak, level)
    spread = schedule.mesh.spread(np.asarray(peak, np.int64))
    spread.setflags(write=False)
    return spread
