"""Links that came up narrower or slower than they should: fewer lanes, an older generation, a lower signalling rate."""

import re
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING

from topologies.findings import Finding, arrow, back, widened
from topologies.units import format_rate

if TYPE_CHECKING:
    import networkx as nx

FAR_BELOW = 0.8  # of what others of its class have; a generation or half the lanes less is at most 0.5
FEWEST = 3  # links that make a class
Link = tuple[str, str]


def find(graph: "nx.DiGraph") -> list[Finding]:
    """Return a finding for each kind, speed and speed that should be.

    A link should have what its attribute `expected` says (bytes/s); where it has none, what most links of its class
    have. A class is of one kind and between nodes whose names differ in their numbers only; links between two GPUs, of
    which some pairs have more than others, are compared with those of the same two of other machines.
    """
    usual = _usual(graph)
    slow: dict[Link, float] = {}
    for tail, head, link in graph.edges(data=True):
        expected = link.get("expected") or usual.get((tail, head), 0.0)
        if link["bandwidth"] < FAR_BELOW * expected:
            slow[tail, head] = expected
    groups: dict[tuple[str, float, float], list[Link]] = defaultdict(list)
    for (tail, head), expected in slow.items():
        link = graph.edges[tail, head]
        if "expected" in link or back(tail, head) in slow:  # else it is one direction only: asymmetric
            groups[link["kind"], link["bandwidth"], expected].append((tail, head))
    return [_finding(graph, *key, links) for key, links in groups.items()]


def _finding(graph: "nx.DiGraph", kind: str, bandwidth: float, expected: float, links: list[Link]) -> Finding:
    """Return the finding of links of a kind that carry too little."""
    return Finding(
        f"{kind} trained down",
        tuple(arrow(*link) for link in links),
        f"{format_rate(bandwidth)} instead of {format_rate(expected)}",
        partial(widened, graph, [(*link, expected) for link in links]),
    )


def _usual(graph: "nx.DiGraph") -> dict[Link, float]:
    """Return the bytes/s that most links of the class of each have, where it has a class."""
    classes: dict[tuple[str, str, str], list[Link]] = defaultdict(list)
    for tail, head, link in graph.edges(data=True):
        classes[link["kind"], _class(graph, tail, head, tail), _class(graph, tail, head, head)].append((tail, head))
    usual: dict[Link, float] = {}
    for links in classes.values():
        (bandwidth, most), *_ = Counter(graph.edges[link]["bandwidth"] for link in links).most_common(1)
        if len(links) >= FEWEST and 2 * most > len(links):
            usual |= dict.fromkeys(links, bandwidth)
    return usual


def _class(graph: "nx.DiGraph", tail: str, head: str, node: str) -> str:
    """Return what a node is called in the class of a link: without numbers, or without those of its machine."""
    between_gpus = {graph.nodes[tail]["kind"], graph.nodes[head]["kind"]} == {"gpu"}
    host = str(graph.nodes[node].get("host", ""))
    if not between_gpus or not host:
        return re.sub(r"\d+", "#", node)
    return node.removeprefix(host)
