"""Outages: what changes while a program runs, as one SimPy process that sets speeds, capacities and routes."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
import simpy

from sim.conditions import Conditions
from sim.detours import Detours, NoPathError, Routes, widened
from sim.engine import Engine, Progress, run
from sim.fastest import Ahead, run_fastest
from sim.handicap import slowed
from sim.program import Frozen
from sim.spans import Record, Spans
from sim.stall import StallError
from sim.state import IDLE, WORKING, Plan


class Outages:
    """A program under faults. `frozen` has all that is so from the start; `process` brings the rest.

    When a link goes down its flows stand still; a delay later all are routed anew for what is then up, and back in
    the same way. A flow that needs a path when there is none ends the run. One whose link comes back sooner goes on.
    """

    def __init__(self, frozen: Frozen, conditions: Conditions) -> None:
        """Prepare a run.

        Raises:
            NoPathError: a flow has no path from the start.
        """
        self.conditions = conditions
        self.detours = Detours(frozen, conditions.graph, conditions.network)
        speed, settled = conditions.settled_speed()
        self._timed_ranks = np.flatnonzero(~settled)
        self.routes = self._all_routes()
        first = self.routes[0.0]
        needed = ((int(flow), self.detours.user(int(flow))) for flow in np.flatnonzero(first.lost))
        for flow, op in needed:
            if op is not None:
                raise self.detours.error(flow, first.down, op)
        frozen = slowed(frozen, np.where(settled, speed, 1.0))
        self.frozen = replace(frozen, bare=self._on(first, frozen.bare), capacity=conditions.capacity(0.0))
        self._lost = first

    def _all_routes(self) -> dict[float, Routes]:
        """The routes, by the instant from which they hold; all tables equally wide."""
        delay, now = self.conditions.reroute_delay, self.conditions.down(0.0)
        sets = {0.0: now}
        for at in (time + delay for time in self.conditions.times[1:]):
            if self.conditions.down(at) != now:
                now = sets[at] = self.conditions.down(at)
        known = {down: self.detours.around(down) for down in set(sets.values())}
        width = max(routes.route.shape[1] for routes in known.values())
        pad = self.conditions.network.pad
        for down, routes in known.items():
            known[down] = routes._replace(route=widened(routes.route, width, pad))
        return {at: known[down] for at, down in sets.items()}

    def run(
        self,
        record: Record = "full",
        progress: Progress | None = None,
        ahead: Ahead | None = None,
        *,
        burst: bool = True,
    ) -> Spans:
        """Run to the end: in the fastest way, where nothing changes once the run has begun.

        Raises:
            NoPathError: a flow has no path when it needs one.
        """
        try:
            if self.is_settled:
                return run_fastest(self.frozen, record, progress, ahead)
            if ahead is not None:
                ahead(self.frozen)
            return run(self.frozen, processes=[self.process], record=record, progress=progress, burst=burst)
        except StallError as stall:
            raise self._explained(stall) from None

    @property
    def is_settled(self) -> bool:
        """Whether nothing changes once the run has begun."""
        return self.conditions.is_settled

    def process(self, env: simpy.Environment, engine: Engine) -> Generator[simpy.Event, Any, Any]:
        """Bring every change at its time."""
        capacity, speed = self.conditions.capacity(0.0), np.ones(self.frozen.ranks)
        starts = self.conditions.late[self._timed_ranks]
        instants = {*self.conditions.times, *self.routes, *starts.tolist()}
        for at in sorted(instants):
            if at > env.now:
                yield env.timeout(at - env.now)
            self._check_lost(engine)
            wanted = self.conditions.capacity(at)
            for link in np.flatnonzero(wanted != capacity):
                engine.set_capacity(int(link), float(wanted[link]))
            capacity = wanted
            left = self.conditions.speed(at)
            for rank in self._timed_ranks[left[self._timed_ranks] != speed[self._timed_ranks]]:
                engine.set_speed(int(rank), float(left[rank]))
            speed = left
            if at in self.routes and at > 0:
                self._lost = self.routes[at]
                engine.set_routes(self._lost.route, self._lost.latency)
                self._check_lost(engine)

    def _check_lost(self, engine: Engine) -> None:
        """End the run if a flow is under way that has no path."""
        state = engine.state
        busy = np.flatnonzero((state.phase != IDLE) & (state.phase != WORKING))
        stuck = busy[self._lost.lost[state.flow[busy]]]
        if len(stuck):
            slot = int(stuck[0])
            op = int(self.frozen.bare.order[slot // self.frozen.ranks, state.counter[slot]])
            raise self.detours.error(int(state.flow[slot]), self._lost.down, op)

    def _explained(self, stall: StallError) -> StallError | NoPathError:
        """A stall, or the flow without a path that has caused it."""
        plan, ranks = self.frozen.bare, self.frozen.ranks
        for wait in stall.waits:
            flow = int(plan.pattern[wait.op]) * ranks + wait.rank
            if plan.kind[wait.op] and plan.dst.reshape(-1)[flow] >= 0 and self._lost.lost[flow]:
                return self.detours.error(flow, self._lost.down, wait.op)
        return stall

    def _on(self, routes: Routes, plan: Plan) -> Plan:
        """A plan on other routes."""
        if routes.route is plan.route:
            return plan
        weight = (routes.route != self.conditions.network.pad).astype(np.int32)
        return plan._replace(route=routes.route, latency=routes.latency, weight=weight)
