"""Links that are slower in one direction than in the other, or that have one direction only."""

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from topologies.findings import Finding, arrow, back, widened
from topologies.units import format_rate

if TYPE_CHECKING:
    import networkx as nx

SAME = 0.99  # of the other direction: what is as fast


def find(graph: "nx.DiGraph") -> list[Finding]:
    """Return a finding for each class of link with unequal directions: its kind, and bytes/s there and back."""
    uneven: dict[tuple[str, float, float], list[tuple[str, str]]] = defaultdict(list)
    for tail, head, link in graph.edges(data=True):
        behind, ahead = back(tail, head)
        if behind not in graph or ahead not in graph:
            continue
        other = graph.edges[behind, ahead]["bandwidth"] if graph.has_edge(behind, ahead) else 0.0
        if other < SAME * link["bandwidth"]:
            uneven[link["kind"], other, link["bandwidth"]].append((behind, ahead))
    return [_finding(graph, *key, links) for key, links in uneven.items()]


def _finding(graph: "nx.DiGraph", kind: str, slow: float, fast: float, links: list[tuple[str, str]]) -> Finding:
    """Return the finding of links that carry `slow` one way and `fast` the other."""
    where = tuple(arrow(*link) for link in links)
    mended = partial(widened, graph, [(*link, fast) for link in links])
    if not slow:
        return Finding(f"{kind} goes one way only", where, f"nothing goes here; {format_rate(fast)} comes back", mended)
    rates = f"{format_rate(slow)} here, {format_rate(fast)} the other way"
    return Finding(f"{kind} differs by direction", where, rates, mended)
