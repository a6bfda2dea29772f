"""Twins: switches that nothing tells apart but their names, as the spines of a fat tree.

Switches to which only switches are cabled are coloured by their tolls, and then by the colours of their neighbours and
the links to these until no more colours appear; every other node has a colour of its own. So each switch of a class has
as many links of each sort from, and to, each other class. A path from class to class can then be walked from node to
node, whichever node of a class it comes through; and what is split equally over a class stays so in the next.
"""

from collections import Counter
from collections.abc import Hashable, Iterator

import networkx as nx

Sort = tuple[Hashable, ...]  # of a link, seen from one end


def classes(graph: nx.DiGraph) -> list[int]:
    """Return the class of each node, numbered in the order in which they first appear."""
    inner = _inner(graph)
    if len(inner) < 2:
        return list(range(len(graph)))  # none to be alike, as on rails
    links = {node: list(_links(graph, node)) for node in inner}
    colours: dict[Hashable, Hashable] = {node: (node,) for node in graph} | {
        node: ("toll", graph.nodes[node].get("toll", 0)) for node in inner
    }
    before = 0
    while len(set(colours.values())) > before:
        before = len(set(colours.values()))
        numbers: dict[Hashable, int] = {}
        for node, key in [(node, _seen(links[node], colours, node)) for node in inner]:
            colours[node] = numbers.setdefault(key, len(numbers))
    found: dict[Hashable, int] = {}
    return [found.setdefault(colours[node], len(found)) for node in graph]


def merged(graph: nx.DiGraph) -> nx.DiGraph:
    """Return the graph with each class of twins as one switch, whose links carry what theirs do together.

    Flows that are split equally over all their equal paths share such a link as they share the many: its capacity is
    the sum, as each of them carries the same.

    Raises:
        ValueError: links between two classes differ, so that no equal split would fill them alike.
    """
    of = dict(zip(graph, classes(graph), strict=True))
    members = Counter(of.values())
    name: dict[int, Hashable] = {}
    whole = nx.DiGraph(**graph.graph)
    for node, data in graph.nodes(data=True):
        more = members[of[node]] - 1
        if of[node] not in name:
            name[of[node]] = f"{node} (and {more} alike)" if more else node
            whole.add_node(name[of[node]], **data)
    for tail, head, data in graph.edges(data=True):
        ends = name[of[tail]], name[of[head]]
        if not whole.has_edge(*ends):
            whole.add_edge(*ends, **data, sort=data)
            continue
        if whole.edges[ends]["sort"] != data:
            raise ValueError(f"--routing ideal needs equal paths to be of equal links: {tail} -> {head} differs")
        whole.edges[ends]["bandwidth"] += data["bandwidth"]
    for _, _, data in whole.edges(data=True):
        del data["sort"]
    return whole


def _inner(graph: nx.DiGraph) -> set[Hashable]:
    """Return the switches to which only switches are cabled."""
    switches = {node for node, data in graph.nodes(data=True) if data.get("kind") == "switch" and "host" not in data}
    return {
        node for node in switches if switches.issuperset(graph.pred[node]) and switches.issuperset(graph.succ[node])
    }


def _links(graph: nx.DiGraph, node: Hashable) -> Iterator[tuple[Hashable, Sort]]:
    """Yield the neighbours of a node, and the sort of the link to, or from, each."""
    for way, ends in (("in", graph.pred[node]), ("out", graph.succ[node])):
        for other, data in ends.items():
            yield other, (way, data["bandwidth"], data["latency"], data.get("kind"))


def _seen(links: list[tuple[Hashable, Sort]], colours: dict[Hashable, Hashable], node: Hashable) -> Hashable:
    """Return what tells a node apart: its colour, and how many links of each sort it has to each colour."""
    return colours[node], frozenset(Counter((colours[other], sort) for other, sort in links).items())
