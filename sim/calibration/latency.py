"""What small messages say: on one machine what a communication op's launch takes, between machines a NIC's link.

The rest of a small message's time are the latencies of the links it passes, as the simulator counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import networkx as nx

from sim.calibration.alone import Alone
from sim.calibration.runs import Run
from sim.costs import Costs
from sim.islands import islands
from sim.network import Network

NIC = "nic"
EXACT, MOST_STEPS = 1e-3, 6
MOST_LATENCY = 1.0  # seconds of a link


@dataclass(frozen=True)
class Small:
    """What the small end of a run gives.

    Attributes:
        measured, before: seconds of its smallest messages, as measured and as simulated before.
        comm_launch: seconds; None unless it is what changes. nic_latency: likewise, of a link of a NIC.
        why_not: what is the matter where neither is given.
    """

    measured: float
    before: float
    comm_launch: float | None = None
    nic_latency: float | None = None
    why_not: str = ""


def small(run: Run, graph: nx.DiGraph, costs: Costs, placement: Sequence[int] | None = None) -> Small | None:
    """Return what the smallest messages of a run say; None where it has none that are simulated.

    Args:
        placement: the GPUs of the run, None for all.
    """
    if not run.small:
        return None
    measured = median(run.points[nbytes] for nbytes in run.small)
    nbytes = run.small[0]

    def at(seconds: float, changed: nx.DiGraph) -> float | None:
        return Alone(changed, replace(costs, comm_launch=seconds), placement).seconds(run.test, nbytes)

    before = at(costs.comm_launch, graph)
    if before is None:
        return None
    network = Network(graph, placement)
    if len(islands(network, graph)) == 1 or NIC not in network.kinds:
        launch = costs.comm_launch + measured - before
        if launch < 0:
            return Small(measured, before, why_not="less than the latencies of the links alone")
        return Small(measured, before, comm_launch=launch)
    latency = _latency(graph, measured, lambda changed: at(costs.comm_launch, changed) or 0.0)
    if latency is None:
        return Small(measured, before, why_not="less than a launch and the latencies of the other links")
    return Small(measured, before, nic_latency=latency)


def with_latency(graph: nx.DiGraph, latency: float, source: str) -> nx.DiGraph:
    """Return the graph with another latency of its NICs' links, and the assumption that says so."""
    changed = graph.copy()
    for _, _, data in changed.edges(data=True):
        if data.get("kind") == NIC:
            data["latency"] = latency
    about = f"{NIC}.latency: {latency * 1e6:.2f} us a link; {source}"
    rest = [text for text in graph.graph.get("assumptions", ()) if not text.startswith(f"{NIC}.latency:")]
    changed.graph["assumptions"] = [*rest, about]
    return changed


def _latency(graph: nx.DiGraph, measured: float, seconds: Callable[[nx.DiGraph], float]) -> float | None:
    """Return the latency of a NIC's link that makes a message take as long as measured, None if it were negative."""
    low, high = 0.0, float(max(data["latency"] for _, _, data in graph.edges(data=True) if data.get("kind") == NIC))
    at_low = seconds(with_latency(graph, low, ""))
    if at_low > measured:
        return None
    for _ in range(MOST_STEPS):  # all but straight
        at_high = seconds(with_latency(graph, high, ""))
        if abs(at_high / measured - 1) < EXACT or at_high <= at_low:
            break
        high = min(low + (high - low) * (measured - at_low) / (at_high - at_low), MOST_LATENCY)
    return high
