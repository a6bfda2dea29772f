"""Measured beside simulated: the times of a run at some of its sizes, before and after the calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx

from sim.bandwidths import Bandwidths
from sim.calibration.alone import Alone
from sim.calibration.calibrate import Calibration, Told
from sim.costs import Costs
from topologies.logs.records import factor

SHOWN = 6


@dataclass(frozen=True)
class Checked:
    """Seconds of a message: as measured, by the curve, and simulated before and after; None of what is not."""

    nbytes: int
    measured: float
    curve: float | None
    before: float | None
    after: float | None


def checked(found: Calibration, one: Told, costs: Costs, sizes: Sequence[int] | None = None) -> list[Checked]:
    """Return the times of a run at some sizes, or those given.

    Args:
        costs: before the calibration.
    """
    models = [_Model(one, found.before, costs), _Model(one, found.graph, found.costs)]
    rows = []
    for nbytes in some(one.run.counting) if sizes is None else sizes:
        before, after = (model.seconds(nbytes) for model in models)
        curve = one.curve.seconds(nbytes) if one.curve else None
        rows.append(Checked(nbytes, one.run.points[nbytes], curve, before, after))
    return rows


def again(found: Calibration, one: Told) -> float | None:
    """Return by how much, at worst, the large messages of a run take otherwise when they are simulated again.

    None where they told nothing.
    """
    if not one.reached or one.reached.why_not or not one.run.large:
        return None
    model = _Model(one, found.graph, found.costs)
    times = [(model.seconds(nbytes), one.run.points[nbytes]) for nbytes in one.run.large]
    return max(abs(seconds / measured - 1) for seconds, measured in times if seconds)


def some(sizes: Sequence[int], most: int = SHOWN) -> list[int]:
    """Return the first, the last and others evenly between."""
    if len(sizes) <= most:
        return list(sizes)
    return [sizes[round(k * (len(sizes) - 1) / (most - 1))] for k in range(most)]


class _Model:
    """Seconds of a message: by the engine, or by closed form where trees carry it, or two ranks stream messages."""

    def __init__(self, one: Told, graph: nx.DiGraph, costs: Costs) -> None:
        self.run, self.by = one.run, one.reached.by if one.reached else ""
        self.is_tree = self.by == "trees"
        self.alone = Alone(graph, costs, one.placement)
        self.rate = one.reached.figure(Bandwidths(graph, costs, one.placement)) if one.reached else None

    def seconds(self, nbytes: int) -> float | None:
        if self.run.test in ("bw", "bibw") and self.rate:
            return nbytes / self.rate
        if self.is_tree and self.rate:
            start = self.alone.seconds(self.run.test, min(nbytes, self.run.sizes[0]))
            return (start or 0.0) + factor(self.run.test, self.run.ranks) * nbytes / self.rate
        return self.alone.seconds(self.run.test, nbytes)
