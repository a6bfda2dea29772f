"""The engine: SimPy owns the clock, and the compiled step does the work of each distinct instant.

In a *burst* the step runs on from instant to instant until the next event of another process, which is when
anything can next be changed; strictly, it is called once for each instant, by a SimPy event of its own, so that
a process may look at the engine in between. Both give the same bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from heapq import heappush
from typing import Any

import numpy as np
import simpy
from simpy.events import NORMAL, EventPriority

from sim.program import Frozen
from sim.spans import Record, Spans
from sim.stall import StallError, find_waits
from sim.state import IDLE, PASSED, Floats, Ints, new_state, new_work
from sim.step import change_capacity, change_routes, change_speed, step

Progress = Callable[[float, float], None]  # the share of all ops passed, and simulated seconds
Process = Callable[[simpy.Environment, "Engine"], Generator[simpy.Event, Any, Any]]

AFTER_HOOKS = EventPriority(NORMAL + 1)  # what a process does at an instant comes before what ends then
BURST = 1 << 14  # most instants between two looks at the progress hook and at Ctrl-C
KEPT = 1 << 25  # (op, rank) pairs: two arrays of 256 MiB
PROGRESS_SECONDS = 0.1  # least wall time between two calls of a progress hook


class Engine:
    """One run of a frozen program. Any SimPy process may call the setters at any time.

    Attributes:
        done: an event that succeeds with the makespan, or fails with a StallError.
        now: seconds at the last instant handled.
    """

    def __init__(
        self,
        env: simpy.Environment,
        frozen: Frozen,
        record: Record = "full",
        progress: Progress | None = None,
        burst: bool = True,
    ) -> None:
        """Prepare a run in `env`; its first instant is the first thing that `env.run` does, hooks apart."""
        if record == "path":
            record = "full" if keeps_times(frozen) else "extent"
        columns = frozen.ranks if record == "full" else 1
        self.env, self.frozen, self.record, self.plan = env, frozen, record, frozen.plan
        self.now, self.instants, self.done = float(env.now), 0, env.event()
        self.state = new_state(self.plan, frozen.capacity, columns)
        self.work = new_work(self.plan, frozen.capacity)
        self._progress, self._report_at, self._burst = progress, 0.0, burst
        self._total = len(self.plan.kind) * frozen.ranks
        self._generation, self._due, self._still_since = 0, self.now, math.inf
        self._arm(self.now)

    def set_capacity(self, link: int, bytes_per_second: float) -> None:
        """Let `link` carry `bytes_per_second` from now on; 0 takes it down."""
        links = len(self.frozen.capacity) - 1
        if not 0 <= link < links:
            raise ValueError(f"link must be 0 to {links - 1}, got {link}")
        _check_rate("capacity", bytes_per_second)
        plan, now = self.plan, self._hook_time()
        due = change_capacity(plan, self.state, self.work, int(link), float(bytes_per_second), now)
        self._rearm(due)

    def set_speed(self, rank: int, factor: float) -> None:
        """Let `rank` compute `factor` times as fast as planned from now on; 0 halts it."""
        if not 0 <= rank < self.frozen.ranks:
            raise ValueError(f"rank must be 0 to {self.frozen.ranks - 1}, got {rank}")
        _check_rate("speed", factor)
        plan, now = self.plan, self._hook_time()
        due = change_speed(plan, self.state, self.work, int(rank), float(factor), now)
        self._rearm(due)

    def set_routes(self, route: Ints, latency: Floats) -> None:
        """Let flows take the routes [flows, hops] from now on, and their latencies [flows].

        Only for a program that is not folded; as many hops as the plan has.
        """
        if route.shape != self.plan.route.shape:
            raise ValueError(f"routes must have the plan's shape {self.plan.route.shape}, got {route.shape}")
        if self.plan.route is self.frozen.plan.route:  # other runs of the program keep theirs
            own = {name: getattr(self.plan, name).copy() for name in ("route", "latency", "weight")}
            self.plan = self.plan._replace(**own)
        due = change_routes(self.plan, self.state, self.work, route, latency, self._hook_time())
        self._rearm(due)

    def spans(self) -> Spans:
        """Return the spans so far."""
        full = self.record == "full"
        return Spans(
            start=self.state.start if full else self.state.start[:, 0],
            end=self.state.end if full else self.state.end[:, 0],
            makespan=self.now,
            link_bytes=self.state.carried[:-1],
            instants=self.instants,
            how="events in bursts" if self._burst else "events",
        )

    def _hook_time(self) -> float:
        """Return SimPy's now, or the last instant of a burst that has run ahead of it."""
        return max(self.now, float(self.env.now))

    def _rearm(self, due: float) -> None:
        """Arm the next instant anew after a hook; before the first instant it is armed already.

        If nothing ends now, look again when all hooks of this instant are through: one may yet help.
        """
        if self.instants > 0 and not self.done.triggered:
            self._arm(due if due < math.inf else self._hook_time())

    def _arm(self, due: float) -> None:
        """Let the step run at `due`; an event armed before is void."""
        self._generation += 1
        self._due = float(due)
        event = self.env.event()
        event.callbacks.append(self._tick)
        self._schedule(event, self._generation, due)

    def _schedule(self, event: simpy.Event, value: float, due: float) -> None:
        """Let `event` succeed at exactly `due`, after all hooks. (A delay, as SimPy takes it, would be rounded.)"""
        event._ok, event._value = True, value
        heappush(self.env._queue, (max(due, self.env.now), AFTER_HOOKS, next(self.env._eid), event))

    def _tick(self, event: simpy.Event) -> None:
        """Handle the instant that is due, and in a burst all that come before the next event of a process."""
        if event.value != self._generation:
            return
        horizon = self.env.peek() if self._burst else self._due
        while True:
            self.now, due, instants = step(self.plan, self.state, self.work, self._due, horizon, BURST)
            self.instants += instants
            self._due = due
            self._report()
            if due >= horizon:
                break
        self._arm_or_end(due)

    def _arm_or_end(self, due: float) -> None:
        """Arm the next instant; if nothing will end, end the run, or wait for a process to act."""
        if due < math.inf:
            self._still_since = math.inf
            self._arm(due)
            return
        self._still_since = min(self._still_since, self._hook_time())
        if self.work.counts[PASSED] == self._total:
            self._schedule(self.done, self.now, self.now)
        elif self.env.peek() < math.inf and bool(np.any(self.state.phase != IDLE)):
            self._arm(max(self.now, self.env.peek()))
        else:
            self.done.fail(StallError(self._still_since, find_waits(self.frozen, self.state)))

    def _report(self) -> None:
        """Call the progress hook if there is one and it was not called just now."""
        if self._progress is not None and time.monotonic() >= self._report_at:
            self._report_at = time.monotonic() + PROGRESS_SECONDS
            self._progress(int(self.work.counts[PASSED]) / max(1, self._total), self.now)


def run(
    frozen: Frozen,
    *,
    processes: Sequence[Process] = (),
    record: Record = "full",
    progress: Progress | None = None,
    burst: bool = True,
) -> Spans:
    """Run `frozen` to its end and return when each op ran.

    Args:
        processes: functions (env, engine) of SimPy processes that may change capacities and speeds. While
            something stands still that they could set going again, the run waits for them.
        record: "full" keeps every rank's spans, "extent" the earliest start and latest end of each op, "path"
            the former unless they are too many.
        progress: called now and then with the share of ops passed and the simulated seconds.
        burst: False where a process looks at the engine at instants that are not its own.

    Raises:
        StallError: when nothing can ever end.
    """
    env = simpy.Environment()
    engine = Engine(env, frozen, record, progress, burst)
    for process in processes:
        env.process(process(env, engine))
    env.run(until=engine.done)
    return engine.spans()


def keeps_times(frozen: Frozen) -> bool:
    """Whether a run event by event keeps the times that a path is found by; it cannot be run again in stretches."""
    return len(frozen.bare.kind) * frozen.ranks <= KEPT


def _check_rate(name: str, value: float) -> None:
    """Raise a ValueError unless `value` is finite and not negative."""
    if not (0 <= value < math.inf):
        raise ValueError(f"{name} must be finite and not negative, got {value}")
