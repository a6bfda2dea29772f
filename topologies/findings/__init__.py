"""Findings: what is wrong with a graph, or narrower than it could be. One file a finding.

A finding's file has `find(graph) -> list[Finding]`, for a graph that keeps the laws; adding a file to NAMES adds it.
"""

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx as nx

NAMES = ("asymmetric", "trained_down", "nvlinks", "affinity", "host_memory", "staged", "shared_nics", "oversubscribed")


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        what: the rule that is broken, in a few words.
        where: names of nodes, or links as `a -> b`.
        how_bad: what is there, and what should be.
        mended: returns a copy of the graph with this repaired and nothing else changed.
        by_design: how such a cluster is built, rather than a fault of this one.
        as_is: returns the graph in which this has its effect, where that is not the one it was found in.
    """

    what: str
    where: tuple[str, ...]
    how_bad: str
    mended: "Callable[[], nx.DiGraph]" = field(repr=False, compare=False)
    by_design: bool = False
    as_is: "Callable[[], nx.DiGraph] | None" = field(default=None, repr=False, compare=False)


def find(graph: "nx.DiGraph") -> list[Finding]:
    """Return what is found: faults first, then what is by design."""
    graph = _named(graph)
    found = [one for name in NAMES for one in importlib.import_module(f"{__name__}.{name}").find(graph)]
    return sorted(found, key=lambda one: one.by_design)


def arrow(tail: str, head: str) -> str:
    """Write a link."""
    return f"{tail} -> {head}"


def back(tail: str, head: str) -> tuple[str, str]:
    """Return the link that goes the other way: the same nodes, but of one-way nodes X/up the partner X/down."""
    return _partner(head), _partner(tail)


def widened(graph: "nx.DiGraph", bandwidths: Iterable[tuple[str, str, float]]) -> "nx.DiGraph":
    """Return a copy with the links (tail, head) at these bytes/s; one that is not there is made like its way back."""
    copy = graph.copy()
    for tail, head, bandwidth in bandwidths:
        like = copy.edges[tail, head] if copy.has_edge(tail, head) else copy.edges[back(tail, head)]
        copy.add_edge(tail, head, **{**like, "bandwidth": bandwidth})
    return copy


def _named(graph: "nx.DiGraph") -> "nx.DiGraph":
    """Return the graph, or a copy in which nodes that are no text are."""
    if all(isinstance(node, str) for node in graph):
        return graph
    copy = graph.__class__(**graph.graph)
    for node, data in graph.nodes(data=True):
        copy.add_node(str(node), **({**data, "nic": str(data["nic"])} if "nic" in data else data))
    copy.add_edges_from((str(tail), str(head), link) for tail, head, link in graph.edges(data=True))
    return copy


def _partner(node: str) -> str:
    """Return the node by which what goes in here comes back: itself, unless it is one-way."""
    stem, _, end = node.rpartition("/")
    return {"up": f"{stem}/down", "down": f"{stem}/up"}.get(end, node)
