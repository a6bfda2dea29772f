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
        all_reduce, all_reduce_mended: busbw by rings, None for one rank. all_to_all, all_to_all_mended: busbw, None for
            one rank and for many.
        send_recv, send_recv_mended: of the pair that gains most by the repair, both ways at once, all others idle; of
            the slowest where none gains; None for one rank. pair: its GPUs, none for one rank.
    """

    finding: Finding
    all_reduce: float | None
    all_reduce_mended: float | None
    all_to_all: float | None
    all_to_all_mended: float | None
    send_recv: float | None
    send_recv_mended: float | None
    pair: tuple[str, ...]

    @property
    def gains(self) -> bool:
        """Whether anything is faster once this is mended; of a single GPU nothing is known."""
        nows = self.all_reduce, self.all_to_all, self.send_recv
        mended = self.all_reduce_mended, self.all_to_all_mended, self.send_recv_mended
        pairs = zip(nows, mended, strict=True)
        return any(a is not None and b is not None and b > a * (1 + SAME) for a, b in pairs)


def repairs(graph: nx.DiGraph, costs: Costs | None = None) -> tuple[Bandwidths, list[Repair]]:
    """Return the bandwidths of a graph that keeps the laws, and what each finding about it costs."""
    now = Bandwidths(graph, costs)
    return now, [_repair(now, finding, costs) for finding in find(graph)]


def _repair(now: Bandwidths, finding: Finding, costs: Costs | None) -> Repair:
    """Return what one finding costs."""
    source, target = now.pairs
    if not len(source):
        return Repair(finding, None, None, None, None, None, None, ())
    now = Bandwidths(finding.as_is(), costs) if finding.as_is else now
    mended = Bandwidths(finding.mended(), costs)
    before, after = now.both_ways, mended.between(source, target)
    gain = after / before
    worst = int(gain.argmax() if gain.max() > 1 + SAME else np.argmin(before))
    pair = now.network.gpus[source[worst]], now.network.gpus[target[worst]]
    reduced = max(mended.all_reduce, mended.by(now.rings))  # more NICs never force other rings
    collectives = now.all_reduce, reduced, now.all_to_all, mended.all_to_all
    return Repair(finding, *collectives, float(before[worst]), float(after[worst]), pair)
