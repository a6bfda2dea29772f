"""What each finding costs: bandwidths of the graph as it is, and with that one thing mended."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np

from sim.bandwidths import Bandwidths
from sim.costs import Costs
from topologies.findings import Finding, find

SAME = 1e-6  # relative: rates that are one


@dataclass(frozen=True)
class Repair:
    """A finding and its figures, in bytes/s.

    Attributes:
        all_reduce, all_reduce_mended: busbw by rings. all_to_all, all_to_all_mended: busbw, None for many ranks.
        send_recv, send_recv_mended: of the pair that gains most by the repair, both ways at once, all others idle; of
            the slowest where none gains. pair: its GPUs.
    """

    finding: Finding
    all_reduce: float
    all_reduce_mended: float
    all_to_all: float | None
    all_to_all_mended: float | None
    send_recv: float
    send_recv_mended: float
    pair: tuple[str, str]


def repairs(graph: nx.DiGraph, costs: Costs | None = None) -> tuple[Bandwidths, list[Repair]]:
    """Return the bandwidths of a graph that keeps the laws, and what each finding about it costs."""
    now = Bandwidths(graph, costs)
    return now, [_repair(now, finding, costs) for finding in find(graph)]


def _repair(now: Bandwidths, finding: Finding, costs: Costs | None) -> Repair:
    """Return what one finding costs."""
    mended = Bandwidths(finding.mended(), costs)
    source, target = now.pairs
    before, after = now.both_ways, mended.between(source, target)
    gain = after / before
    worst = int(gain.argmax() if gain.max() > 1 + SAME else np.argmin(before))
    pair = now.network.gpus[source[worst]], now.network.gpus[target[worst]]
    collectives = now.all_reduce, mended.all_reduce, now.all_to_all, mended.all_to_all
    return Repair(finding, *collectives, float(before[worst]), float(after[worst]), pair)
