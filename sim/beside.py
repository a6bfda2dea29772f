"""Beside: a measured run, its replay, and what a cluster's costs predict for the same schedule, op by op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from algorithms.ir.schedule import Schedule
from algorithms.ir.timeline import Timeline
from algorithms.ops import is_free
from sim.numbers import rests_on
from sim.own_times import SAME, Own, own
from sim.recorded import Recorded
from sim.replay import replay
from sim.result import Errors
from sim.simulate import Site, simulate, ways_of
from sim.summary import groups


class Row(NamedTuple):
    """Seconds of ops themselves, waiting left out: the mean of the ranks; predicted is None where nothing was."""

    stream: str
    kind: str
    ops: int
    measured: float
    predicted: float | None

    @property
    def difference(self) -> float:
        """Predicted less measured."""
        return (self.predicted or 0.0) - self.measured

    def record(self, measured: float, predicted: float | None) -> dict[str, Any]:
        """The row as data, with its shares of both whole runs."""
        shares: dict[str, float | None] = {"measured_share": self.measured / measured}
        if self.predicted is not None and predicted:
            shares["predicted_share"] = self.predicted / predicted
            shares["ratio"] = self.predicted / self.measured if self.measured else None
        return {
            "stream": self.stream,
            "kind": self.kind,
            "ops": self.ops,
            "measured_s": self.measured,
            "predicted_s": self.predicted,
            **shares,
        }


@dataclass(frozen=True, eq=False)
class Side:
    """A run and what its ops took themselves."""

    timeline: Timeline
    took: Own

    def seconds(self, ops: Sequence[int]) -> float:
        """Seconds of some ops in all, the mean of the ranks."""
        return float((self.took.seconds[ops] + self.took.posting[ops]).sum(0).mean())


@dataclass(frozen=True, eq=False)
class Prediction(Side):
    """A simulated run of the same schedule.

    Attributes:
        low, high: seconds, the model's stated error around the makespan.
        mixed: seconds of a run with the compute ops as measured and transfers as predicted.
        assumptions: what the times rest on.
    """

    low: float
    high: float
    mixed: float
    assumptions: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Beside:
    """A measured run, and beside it what may be compared with it."""

    recorded: Recorded
    measured: Side
    prediction: Prediction | None = None

    @classmethod
    def of(cls, recorded: Recorded) -> Beside:
        """Take the waiting out of a measured run."""
        return cls(recorded, Side(recorded.timeline, own(recorded.schedule, recorded.timeline, recorded.waited)))

    @property
    def schedule(self) -> Schedule:
        """What ran."""
        return self.recorded.schedule

    @cached_property
    def replayed(self) -> Timeline:
        """The run put together again from what its ops took themselves."""
        return replay(self.schedule, self.recorded.timeline, self.measured.took)

    @cached_property
    def of_medians(self) -> float | None:
        """Seconds of a run whose compute ops take their medians over all runs; None where these are not known."""
        if self.recorded.medians is None:
            return None
        took = self.measured.took
        compute = np.array([op.stream is None for op in self.schedule.ops])[:, None]
        seconds = np.where(compute, self.recorded.medians, took.seconds)
        return replay(self.schedule, self.recorded.timeline, replace(took, seconds=seconds)).makespan

    def error(self, seconds: float) -> float:
        """By how much a time is off the measured median, relative to it."""
        return seconds / self.recorded.band.median - 1

    @property
    def meets(self) -> Mapping[str, int]:
        """How many communication ops met in which way."""
        return Counter(
            meets
            for op, meets in zip(self.schedule.ops, self.measured.took.meets, strict=True)
            if op.stream is not None
        )

    def predicted(self, site: Site, errors: Errors) -> Beside:
        """Simulate the same schedule on a site.

        Raises:
            ValueError: the site has too few ranks, or lacks what the schedule needs.
        """
        ways = {} if self.recorded.ways is None else ways_of(self.schedule, self.recorded.ways)
        timeline = simulate(self.schedule, site, ways=ways, record="full")
        took = own(self.schedule, timeline)
        compute = np.array([op.stream is None for op in self.schedule.ops])[:, None]
        here = self.measured.took
        mixture = replace(
            here,
            seconds=np.where(compute, here.seconds, took.seconds),
            posting=np.where(compute, here.posting, took.posting),
        )
        low, high = (
            timeline.compute * (1 + sign * errors.compute) + timeline.exposed * (1 + sign * errors.communication)
            for sign in (-1, 1)
        )
        mixed = replay(self.schedule, self.recorded.timeline, mixture).makespan
        carried = [kind for kind, nbytes in timeline.link_bytes.items() if nbytes]
        rests = site.machine.assumptions(self.schedule.problem, rests_on(self.schedule, carried))
        stated = f"stated error: {errors.compute:.0%} of compute, {errors.communication:.0%} of exposed communication"
        return replace(self, prediction=Prediction(timeline, took, low, high, mixed, (*rests, stated)))

    def by_kind(self) -> list[Row]:
        """The ops by stream and kind, in the order in which they first appear, and the rest of both runs."""
        rows = [self._row(*sort, places) for sort, places in groups(self.recorded.timeline.ops).items()]
        return [*rows, self._rest(rows)]

    def by_op(self) -> list[Row]:
        """Each op that takes time, and the rest of both runs."""
        named = self.recorded.timeline.ops
        rows = [
            self._row(named[op.id]["stream"], named[op.id]["name"], [op.id])
            for op in self.schedule.ops
            if not is_free(op)
        ]
        return [*rows, self._rest(rows)]

    def _row(self, stream: str, kind: str, ops: Sequence[int]) -> Row:
        there = self.prediction
        return Row(stream, kind, len(ops), self.measured.seconds(ops), there.seconds(ops) if there else None)

    def _rest(self, rows: Sequence[Row]) -> Row:
        """What is left of the runs: ranks that wait for others; less what goes on while they compute."""
        there = self.prediction
        measured = _left(self.recorded.timeline.makespan, [row.measured for row in rows])
        predicted = _left(there.timeline.makespan, [row.predicted or 0.0 for row in rows]) if there else None
        return Row("", "waiting" if self._in_turn else "waiting less overlap", 0, measured, predicted)

    @property
    def _in_turn(self) -> bool:
        return self.measured.took.by_line and (self.prediction is None or self.prediction.took.by_line)


def _left(whole: float, parts: Sequence[float]) -> float:
    """What parts leave of a whole; rounding leaves nothing."""
    left = whole - sum(parts)
    return left if abs(left) > SAME * whole else 0.0
