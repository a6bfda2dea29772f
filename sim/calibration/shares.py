"""Which share of its bandwidth the class of link reaches that holds a collective back, by the closed forms of sim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import networkx as nx
import numpy as np

from sim.bandwidths import Bandwidths
from sim.calibration.runs import Run
from sim.costs import Costs
from sim.flows import Flows, busbw

OUTERMOST = ("fabric", "nic", "socket", "pcie", "nvlink", "xgmi", "ici", "link")  # of several that limit, the first
IN_SWITCHES = ("nvls", "collnet", "sharp")  # algorithms by which switches reduce
RAISED, LOWERED = 0.01, 0.05  # by which a share is lowered to see whether it limits; links that nearly do count
TOO_MUCH = "more than all links carry: switches reduced it (NVLS, SHARP), or the cluster is another"
EXACT, MOST_STEPS = 1e-3, 12
Shares = dict[str, float]
Figure = Callable[[Bandwidths], float]


@dataclass(frozen=True)
class Reached:
    """What a run says of links.

    Attributes:
        by: what carries the messages: rings, trees, every pair, one pair.
        figure: the bus bandwidth of that, in bytes/s. before: by the costs as they were. most: if all links reached
            all their bandwidth.
        shares: of the classes of link that must be changed for the measured figure; empty where nothing would do.
        why_not: what is the matter then.
    """

    by: str
    figure: Figure
    before: float
    most: float
    shares: Shares
    why_not: str = ""


def reached(run: Run, graph: nx.DiGraph, costs: Costs, placement: Sequence[int] | None = None) -> Reached | None:
    """Return which shares would make the closed form what was measured; None of a test that has none.

    An all-reduce is taken to go by rings, and by trees where rings cannot carry so much.

    Args:
        placement: the GPUs of the run, None for all.
    """
    target = run.reached
    ways = _figures(run)
    if target is None or not ways:
        return None
    full = replace(costs, link_share=dict.fromkeys(_kinds(graph), 1.0))

    def bandwidths(some: Costs) -> Bandwidths:
        return Bandwidths(graph, some, placement)

    by, figure, most = _chosen(ways, bandwidths(full), target)
    before = figure(bandwidths(costs))
    if any(run.algorithm.startswith(name) for name in IN_SWITCHES):
        return Reached(by, figure, before, most, {}, "switches reduced it, which links do not show")
    if target > most * (1 + EXACT):
        return Reached(by, figure, before, most, {}, TOO_MUCH)
    return Reached(
        by, figure, before, most, _solved(_kinds(graph), costs, lambda some: figure(bandwidths(some)), target)
    )


def _figures(run: Run) -> dict[str, Figure]:
    """Return the closed forms of a test, by what carries it."""
    n = run.ranks
    if run.test == "all_reduce":
        trees: dict[str, Figure] = {"trees": lambda one: one.tree or 0.0}
        rings: dict[str, Figure] = {"rings": lambda one: one.all_reduce}
        return trees if run.algorithm.startswith("tree") else rings if run.algorithm == "ring" else rings | trees
    if run.test in ("all_gather", "reduce_scatter"):
        return {"rings": lambda one: one.all_reduce}
    if run.test == "all_to_all":
        return {"every pair": lambda one: one.all_to_all or 0.0}
    if run.test == "sendrecv":
        around = Flows(np.arange(n), (np.arange(n) + 1) % n, 1.0)
        return {"a ring": lambda one: busbw(one.network, around)}
    if run.test == "bw":
        return {"one pair": lambda one: busbw(one.network, Flows(np.array([0]), np.array([1]), 1.0))}
    if run.test == "bibw":
        return {"one pair, both ways": lambda one: busbw(one.network, Flows(np.array([0, 1]), np.array([1, 0]), 1.0))}
    return {}


def _chosen(ways: Mapping[str, Figure], full: Bandwidths, target: float) -> tuple[str, Figure, float]:
    """Return the first that can carry so much, else that which can carry most."""
    found = [(by, figure, figure(full)) for by, figure in ways.items()]
    return next((one for one in found if one[2] * (1 + EXACT) >= target), max(found, key=lambda one: one[2]))


def _solved(kinds: Sequence[str], costs: Costs, figure: Callable[[Costs], float], target: float) -> Shares:
    """Raise the shares of all that limits, or lower the outermost of what does, until the figure is the target."""
    shares: Shares = {}

    def now(changed: Mapping[str, float]) -> float:
        return figure(_with(costs, changed))

    for _ in range(MOST_STEPS):
        is_now = now(shares)
        if abs(is_now / target - 1) < EXACT:
            break
        value = {kind: _with(costs, shares).value(kind) for kind in kinds}
        step = RAISED if is_now < target else LOWERED
        limits = [kind for kind, x in value.items() if now(shares | {kind: x * (1 - step)}) < is_now * (1 - EXACT)]
        if is_now > target:
            limits = [min(limits, key=OUTERMOST.index)]
        shares |= {kind: min(1.0, value[kind] * target / is_now) for kind in limits}
    return shares


def _with(costs: Costs, shares: Mapping[str, float]) -> Costs:
    """Return costs with other shares."""
    return replace(costs, link_share={**costs.link_share, **shares})


def _kinds(graph: nx.DiGraph) -> list[str]:
    """Return the classes of link of a graph."""
    return list(dict.fromkeys(kind for _, _, kind in graph.edges(data="kind", default="link")))
