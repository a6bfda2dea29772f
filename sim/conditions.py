"""Conditions: what all faults together leave of each link and each rank at an instant."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

import networkx as nx
import numpy as np

from sim.faults import REROUTE_DELAY, Fault
from sim.network import Network
from sim.state import Bools, Floats
from sim.targets import links_of, rank_of


class Conditions:
    """The faults of one run, resolved on its cluster.

    Attributes:
        times: the instants at which something changes, ascending; the first is 0.
        late: [ranks] seconds by which each rank starts late.
    """

    def __init__(
        self, faults: Sequence[Fault], graph: nx.DiGraph, network: Network, reroute_delay: float = REROUTE_DELAY
    ) -> None:
        """Find what the faults name.

        Raises:
            ValueError: there is no such link, NIC, GPU or class of link.
        """
        if not 0 <= reroute_delay < math.inf:
            raise ValueError(f"--reroute-delay must be finite and not negative, got {reroute_delay}")
        self.faults, self.reroute_delay = tuple(faults), reroute_delay
        self.graph, self.network = graph, network
        self.late = np.zeros(network.ranks)
        self._on_links: list[tuple[Fault, list[int]]] = []
        self._on_ranks: list[tuple[Fault, int]] = []
        for fault in self.faults:
            self._resolve(fault)
        ends = {x for f, _ in (*self._on_links, *self._on_ranks) for x in (f.begin, f.end)}
        self._left: dict[int, Floats] = {}
        self.times = sorted({0.0, *(x for x in ends if x < math.inf)})

    def _resolve(self, fault: Fault) -> None:
        if fault.what != "background" and fault.kind == "gpu":
            rank = rank_of(fault, self.graph, self.network)
            if fault.what == "late":
                self.late[rank] = max(self.late[rank], fault.amount)
            else:
                self._on_ranks.append((fault, rank))
        else:
            self._on_links.append((fault, links_of(fault, self.graph, self.network)))

    def capacity(self, now: float) -> Floats:
        """[links + 1] bytes/s that are left of each link."""
        left = self.network.capacity.copy()
        for fault, links in self._on_links:
            if fault.holds(now):
                share = 1 - fault.amount if fault.what == "background" else fault.amount
                left[links] *= share
        return left

    def mean_capacity(self, link: int, begin: float, end: float) -> float:
        """Bytes/s that are left of a link, on average over a time."""
        cuts = [begin, *(at for at in self.times if begin < at < end)]
        parts = zip(cuts, [*cuts[1:], end], strict=True)
        return sum(float(self._known(cut)[link]) * (stop - cut) for cut, stop in parts) / (end - begin)

    def _known(self, now: float) -> Floats:
        """The capacity at an instant, worked out once for all instants between two changes."""
        place = bisect_right(self.times, now) - 1
        if place not in self._left:
            self._left[place] = self.capacity(self.times[place])
        return self._left[place]

    def speed(self, now: float) -> Floats:
        """[ranks] share of its speed at which each rank computes."""
        left = np.ones(self.network.ranks)
        for fault, rank in self._on_ranks:
            if fault.holds(max(now, self.late[rank])):  # nothing runs before a late start
                left[rank] *= fault.amount
        return left

    def down(self, now: float) -> frozenset[int]:
        """The links that carry nothing."""
        return frozenset(k for f, links in self._on_links if f.what == "down" and f.holds(now) for k in links)

    def settled_speed(self) -> tuple[Floats, Bools]:
        """Each rank's speed at the start, and whether it never changes."""
        speeds = np.stack([self.speed(now) for now in self.times])
        return speeds[0], (speeds == speeds[0]).all(0)

    @property
    def is_settled(self) -> bool:
        """Whether nothing changes after the start."""
        return len(self.times) == 1
