"""A collective alone, timed by the engine: the rings that a library lays, or the way that the simulator would take.

Large messages go along all the rings of sim.rings at once, each an equal part; small all-reduces by doubling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import networkx as nx
import numpy as np

from algorithms import ways
from algorithms.ways import Round
from sim.bandwidths import Bandwidths
from sim.costs import Costs
from sim.fastest import run_fastest
from sim.program import Program, freeze
from sim.simulate import Site
from topologies.logs.records import factor

RINGS = ("all_reduce", "all_gather", "reduce_scatter")
MOST = 2_000_000  # (op, rank) pairs of a replay, some seconds


class Alone:
    """A cluster on which collectives are timed.

    Attributes:
        site: the cluster with its costs.
        rings: on which large messages go. busbw: that they reach, in bytes/s.
    """

    def __init__(self, graph: nx.DiGraph, costs: Costs, placement: Sequence[int] | None = None) -> None:
        """Lay rings on a graph that keeps the laws, on all GPUs or those placed."""
        bandwidths = Bandwidths(graph, costs, placement)
        self.site = Site(graph, costs, placement)
        self.rings, self.busbw = bandwidths.rings, bandwidths.all_reduce

    def seconds(self, test: str, nbytes: int) -> float | None:
        """Return the seconds of a message; None of what is not simulated.

        Args:
            nbytes: as nccl-tests counts it.
        """
        n = self.site.network.ranks
        if test in RINGS:
            return self._around(test, nbytes, n)
        if test in ("all_to_all", "broadcast"):
            way = ways.find(test, ways.DEFAULT[test])
            return self._timed([(list(range(n)), list(way(n)))], nbytes if test == "broadcast" else nbytes / n)
        if test in ("sendrecv", "latency"):
            i = np.arange(n if test == "sendrecv" else 1)
            return self._timed([(list(range(n)), [Round(i, (i + 1) % n, i[:, None])])], nbytes)
        return None

    def _around(self, test: str, nbytes: int, n: int) -> float:
        """Time rings; an all-reduce by doubling too, the faster counts."""
        rounds = list(ways.find(test, "ring")(n))
        found = []
        if len(self.rings) * len(rounds) * n <= MOST:
            found.append(self._timed([(ring, rounds) for ring in self.rings], nbytes / n / len(self.rings)))
        else:  # of too many rings, as if each round took what it does alone
            found.append(len(rounds) * self._hop() + factor(test, n) * nbytes / self.busbw)
        if test == "all_reduce":
            found.append(self._timed([(list(range(n)), list(ways.find(test, "doubling")(n)))], nbytes / n))
        return min(found)

    def _hop(self) -> float:
        """Return the greatest latency from a rank to the next of a ring."""
        network = self.site.network
        ends = [(ring, [*ring[1:], ring[0]]) for ring in self.rings]
        return max(float(network.latency[network.route(*pair)].sum(axis=1).max()) for pair in ends)

    def _timed(self, lanes: Sequence[tuple[Sequence[int], Iterable[Round]]], block: float) -> float:
        """Run rounds on lanes that share the links.

        Args:
            lanes: which rank stands at each place, and rounds of places. block: bytes.
        """
        n, machine = self.site.network.ranks, self.site.machine
        program = Program(n)
        launch = program.compute(np.broadcast_to(machine.costs.comm_launch * machine.real, n), [], 0)
        for lane, (order, rounds) in enumerate(lanes, 1):
            at, last = np.asarray(order), launch
            for one in rounds:
                dst, nbytes, arrives = np.full(n, -1), np.zeros(n), np.zeros(n)
                dst[at[one.src]] = at[one.dst]
                sent = np.ceil((one.blocks >= 0).sum(axis=1) * block)
                nbytes[at[one.src]], arrives[at[one.dst]] = sent, sent
                last = program.permute(dst, nbytes, [last], lane)
                if one.combine:
                    seconds = np.broadcast_to(machine.reduce_seconds(arrives), n)
                    last = program.compute(seconds, [last], lane)
        return float(run_fastest(freeze(program, self.site.network), record="extent").makespan)
