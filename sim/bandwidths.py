"""What a cluster reaches on large messages, by closed form: collectives as nccl-tests defines their busbw, and pairs.

All flows of a collective run at one rate, that of its most loaded link; latencies, protocols and the reduction itself
take no time. So these are upper ends of measured curves. A network that reduces on the way (NVLS, SHARP) goes beyond
what rings and trees can: it is not modelled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np

from sim import rings as laid
from sim import trees
from sim.costs import Costs
from sim.flows import Flows, alone, both_ways, busbw
from sim.islands import islands
from sim.network import Network
from sim.routing import Routing
from sim.simulate import Site
from sim.state import Floats, Longs

ALL_PAIRS = 256  # ranks up to which every two of them are looked at
ALL_TO_ALL = 1024  # ranks up to which an all-to-all is worked out: a million flows, a second
TREE_SHARE = 0.92  # of the links' rate trees reach; github.com/NVIDIA/nccl src/graph/tuning.cc
SEEDS = 10  # of a hash: the middle one of so many is taken


@dataclass(frozen=True)
class PairClass:
    """Pairs of GPUs that are joined alike: link kinds on the way, bytes/s one way and both at once, and how many."""

    way: str
    bandwidth: float
    both_ways: float
    pairs: int
    example: tuple[str, str]


class Bandwidths:
    """The large-message bandwidths of a graph, in bytes/s.

    Attributes:
        network: the graph's, its links at the rates they reach, on which rings are laid.

    Equal paths share what they carry; where they are of unequal links, so that it depends on a hash which is taken,
    a figure is the middle one of ten seeds.
    """

    def __init__(self, graph: nx.DiGraph, costs: Costs | None = None, placement: Sequence[int] | None = None) -> None:
        """Take a graph that keeps the laws; of its GPUs those placed, or all."""
        self.graph, self._costs, self._placement = graph, costs, placement
        self.network: Network = Site(graph, costs, placement, Routing("static")).network

    @cached_property
    def islands(self) -> list[list[int]]:
        """The ranks of each island."""
        return islands(self.network, self.graph)

    @cached_property
    def rings(self) -> list[laid.Ring]:
        """The rings of an all-reduce; none for one rank."""
        if self.network.ranks < 2:
            return []
        return laid.inside(self.network, self.islands[0]) if self._chains is None else self._chains.rings

    @cached_property
    def all_reduce(self) -> float:
        """Busbw of an all-reduce by rings: algbw x 2 (n-1)/n. All-gather and reduce-scatter reach the same."""
        return self.by(self.rings)

    def by(self, rings: Sequence[laid.Ring]) -> float:
        """Return the busbw of an all-reduce by these rings."""
        return self._collective(laid.flows(rings)) if rings else np.inf

    @cached_property
    def tree(self) -> float | None:
        """Busbw of an all-reduce by two trees a port; None on one machine, where none is laid."""
        return None if self._chains is None else TREE_SHARE * self._collective(trees.flows(self._chains))

    @cached_property
    def all_to_all(self) -> float | None:
        """Busbw of an all-to-all, algbw x (n-1)/n: every two ranks send at one rate; None for many ranks, or one."""
        n = self.network.ranks
        return self._collective(Flows(*_every_two(range(n)), float(n - 1))) if 1 < n <= ALL_TO_ALL else None

    @cached_property
    def pairs(self) -> tuple[Longs, Longs]:
        """Sources and targets that are looked at: every two ranks.

        Of many ranks, those of each island, and each rank with those at its place and the one after in the next.
        """
        n = self.network.ranks
        if n <= ALL_PAIRS or len(self.islands) == 1:
            return _every_two(range(n)) if n <= ALL_PAIRS else _around(n)
        near = [_every_two(ranks) if len(ranks) <= ALL_PAIRS else _around(len(ranks), ranks) for ranks in self.islands]
        size = len(self.islands[0])
        here = np.arange(n)
        far = [(here, (here + more) % n) for more in (size, size + 1)]
        source, target = (np.concatenate(side) for side in zip(*near, *far, strict=True))
        return source[source != target], target[source != target]

    @cached_property
    def send_recv(self) -> Floats:
        """Bytes/s of each pair of `pairs` while all others are idle."""
        return self._middle(lambda network: alone(network, *self.pairs))

    @cached_property
    def both_ways(self) -> Floats:
        """Bytes/s of each pair of `pairs` in either direction while both send and all others are idle."""
        return self.between(*self.pairs)

    def between(self, source: Longs, target: Longs) -> Floats:
        """Return the bytes/s from each source to its target while that sends as well and all others are idle."""
        return self._middle(lambda network: both_ways(network, source, target))

    def classes(self) -> list[PairClass]:
        """Return the pairs by the way that joins them and its bytes/s, fastest first."""
        source, target = self.pairs
        routes = self.network.route(source, target)
        kinds = [*self.network.kinds, ""]
        found: dict[tuple[str, float, float], list[int]] = defaultdict(list)
        for pair, route in enumerate(routes.tolist()):
            way = " ".join(dict.fromkeys(filter(None, (kinds[link] for link in route))))
            found[way, float(f"{self.send_recv[pair]:.6g}"), float(f"{self.both_ways[pair]:.6g}")].append(pair)
        gpus = self.network.gpus
        return [
            PairClass(*key, len(some), (gpus[source[some[0]]], gpus[target[some[0]]]))
            for key, some in sorted(found.items(), key=lambda item: -item[0][1])
        ]

    @cached_property
    def _chains(self) -> laid.Chains | None:
        """The chains of all islands; None where there is one."""
        return laid.across(self.network, self.islands, self._collective) if len(self.islands) > 1 else None

    def _collective(self, flows: Flows) -> float:
        """Return the busbw that flows make up; where routing is adaptive, on the routes that they take together."""
        if self._adaptive is not None:
            return busbw(self._adaptive.network, flows)
        return float(self._middle(lambda network: np.array(busbw(network, flows))))

    def _middle(self, figure: Callable[[Network], Floats]) -> Floats:
        """Return a figure of the network, or the middle one over seeds where equal paths cannot be shared equally."""
        try:
            return figure(self._ideal.network)
        except ValueError:  # equal paths of unequal links
            return np.asarray(np.median([figure(site.network) for site in self._hashed], axis=0))

    @cached_property
    def _adaptive(self) -> Site | None:
        """The same with the routes of a fabric that is routed adaptively; None where it is not."""
        routing = Routing.of(self.graph)
        return Site(self.graph, self._costs, self._placement, routing) if routing.name == "adaptive" else None

    @cached_property
    def _ideal(self) -> Site:
        """The same with equal paths as one."""
        return Site(self.graph, self._costs, self._placement, Routing("ideal"))

    @cached_property
    def _hashed(self) -> list[Site]:
        """The same with paths chosen by a hash, a site a seed."""
        first = Site(self.graph, self._costs, self._placement, Routing("ecmp"))
        return [first.repeat(number) for number in range(SEEDS)]


def _every_two(ranks: Sequence[int]) -> tuple[Longs, Longs]:
    """Return every two ranks, both ways round."""
    n = len(ranks)
    source, target = np.repeat(ranks, n), np.tile(ranks, n)
    return source[source != target], target[source != target]


def _around(n: int, ranks: Sequence[int] | None = None) -> tuple[Longs, Longs]:
    """Return each of n ranks with those one and half-way on."""
    here = np.arange(n) if ranks is None else np.array(ranks)
    return np.tile(here, 2), np.concatenate([np.roll(here, -1), np.roll(here, -(n // 2))])
