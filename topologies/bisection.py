"""Bisection bandwidth: what the halves of the GPUs, in rank order, can send to each other.

It is the maximum flow from one half to the other, every node forwarding. Nodes that colour refinement cannot tell apart
are one, with the capacities of their links added: in a linear program such as this that changes no optimum (Grohe,
Kersting, Mladenov, Selman. "Dimension Reduction via Colour Refinement." ESA 2014), and clusters of machines that are
alike shrink to a few nodes. Where more than LARGEST links are left, the answer is the least of some cuts: an upper
bound, which says so.
"""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topologies.laws import gpus

if TYPE_CHECKING:
    import networkx as nx

LARGEST = 4000  # links of which a maximum flow is computed
Sides = dict[int, bool]  # colour -> whether it is with the lower half


@dataclass(frozen=True)
class Bisection:
    """Bytes/s from the lower half of the ranks to the upper and back, and whether that is exact or an upper bound."""

    up: float
    down: float
    is_exact: bool

    @property
    def bandwidth(self) -> float:
        """The lesser of both ways, bytes/s."""
        return min(self.up, self.down)

    @property
    def how(self) -> str:
        """Say what was computed."""
        return "exact, by maximum flow" if self.is_exact else "an upper bound, by cuts at each tier"


def bisection(graph: "nx.DiGraph") -> Bisection | None:
    """Return the bisection bandwidth of a topology; None for a single GPU. Of an odd number the lower half is less."""
    ranked = gpus(graph)
    if len(ranked) < 2:
        return None
    half = dict.fromkeys(ranked[: len(ranked) // 2], 1) | dict.fromkeys(ranked[len(ranked) // 2 :], 2)
    colour = refined(graph, half)
    capacity: Counter[tuple[int, int]] = Counter()
    for tail, head, rate in graph.edges(data="bandwidth"):
        if colour[tail] != colour[head]:
            capacity[colour[tail], colour[head]] += round(rate)
    ends = [{colour[gpu] for gpu, side in half.items() if side == which} for which in (1, 2)]
    back = Counter({(head, tail): rate for (tail, head), rate in capacity.items()})
    if len(capacity) > LARGEST:
        return Bisection(_least_cut(capacity, *ends), _least_cut(back, *ends), False)
    return Bisection(_flow(capacity, *ends), _flow(back, *ends), True)


def refined(graph: "nx.DiGraph", start: dict[str, int]) -> dict[str, int]:
    """Return the colour of each node: equal for nodes of one `start` with equal links to equal colours, and so on.

    Args:
        start: colour of a node to begin with, 0 where not given.
    """
    index = {node: n for n, node in enumerate(graph)}
    sorts: dict[tuple[str, float], int] = {}
    links: list[list[tuple[int, int]]] = [[] for _ in index]
    for tail, head, rate in graph.edges(data="bandwidth"):
        links[index[tail]].append((index[head], sorts.setdefault((">", rate), len(sorts))))
        links[index[head]].append((index[tail], sorts.setdefault(("<", rate), len(sorts))))
    colours, before, found = [start.get(node, 0) for node in index], 0, len(set(start.values())) + 1
    while found > before:
        base, numbers = len(sorts), dict[tuple[int, ...], int]()
        before = found
        keys = (
            (own, *sorted([colours[other] * base + sort for other, sort in ends]))
            for own, ends in zip(colours, links, strict=True)
        )
        colours = [numbers.setdefault(key, len(numbers)) for key in keys]
        found = len(numbers)
    return dict(zip(index, colours, strict=True))


def _flow(capacity: Counter[tuple[int, int]], sources: set[int], sinks: set[int]) -> float:
    """Return the maximum flow."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_edges_from((tail, head, {"capacity": rate}) for (tail, head), rate in capacity.items())
    graph.add_edges_from(("source", colour) for colour in sources)  # of no capacity: unlimited
    graph.add_edges_from((colour, "sink") for colour in sinks)
    return float(nx.maximum_flow_value(graph, "source", "sink"))


def _least_cut(capacity: Counter[tuple[int, int]], sources: set[int], sinks: set[int]) -> float:
    """Return the least of the cuts that grow from the halves tier by tier, a node joining the side it has more to."""
    least = float("inf")
    for tie in (True, False):
        side: Sides = dict.fromkeys(sources, True) | dict.fromkeys(sinks, False)
        while True:
            for rest in (True, False):
                cut = sum(r for (a, b), r in capacity.items() if side.get(a, rest) and not side.get(b, rest))
                least = min(least, float(cut))
            pull: Counter[int] = Counter()
            seen = set()
            for (a, b), rate in capacity.items():
                for own, other in ((a, b), (b, a)):
                    if own not in side and other in side:
                        seen.add(own)
                        pull[own] += rate if side[other] else -rate
            if not seen:
                break
            side |= {colour: pull[colour] > 0 or (pull[colour] == 0 and tie) for colour in seen}
    return least
