"""The laws of a topology: what every graph must keep, whoever wrote it.

G1  every node is of a known kind; what names it, its host, its model and the graph is text that can be printed
G2  every GPU has a rank and nothing else has one; the ranks are 0 .. P-1, once each
G3  every number of a GPU is from 1 to 1e24; flop_rate is there
G4  every link joins two nodes and has a bandwidth from 1 to 1e24, as that expected of it if one is
G5  every link has a latency from 0 to an hour
G6  every link is of a known kind and says whether it is offloaded
G7  every GPU reaches every other
G8  every number has a source or an assumption; these and all remarks are text that can be printed
G9  the NIC that a GPU names is a NIC
"""

from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from topologies.links import LINK_KINDS, NODE_KINDS
from topologies.wording import cut

if TYPE_CHECKING:
    import networkx as nx

GPU_NUMBERS = ("flop_rate", "memory", "memory_bandwidth")
NODE_TEXTS = ("host", "gpu")
GRAPH_TEXTS = ("fabric", "routing")
REMARKS = ("assumptions", "left_out", "notes", "warnings")
LARGEST = 1e24  # FLOP/s, bytes/s, bytes: beyond it, as below 1, a number is a mistake
LONGEST = 3600.0  # seconds


class TopologyError(ValueError):
    """A graph breaks one of its laws; the message names the law, the place and the value."""


def check(graph: "nx.DiGraph") -> None:
    """Check the laws G1 .. G9, in order.

    Raises:
        TopologyError: the first law broken.
    """
    for law in (_kinds, _ranks, _gpu_numbers, _links, _reach, _accounts, _affinity):
        law(graph)


def gpus(graph: "nx.DiGraph") -> list[str]:
    """Return the names of the GPUs in rank order."""
    ranks = {node: data["rank"] for node, data in graph.nodes(data=True) if data.get("kind") == "gpu"}
    return sorted(ranks, key=lambda node: ranks[node])


def facts(graph: "nx.DiGraph") -> Iterator[str]:
    """Name each kind of number in the graph once: gpu.memory, nvlink.bandwidth and so on."""
    present = {key for _, data in graph.nodes(data=True) if data.get("kind") == "gpu" for key in data}
    yield from (f"gpu.{number}" for number in GPU_NUMBERS if number in present)
    for kind in sorted({str(kind) for _, _, kind in graph.edges(data="kind")}):
        yield from (f"{kind}.bandwidth", f"{kind}.latency")


def unaccounted(graph: "nx.DiGraph") -> list[str]:
    """Return the facts for which the graph lists neither a source nor an assumption.

    Raises:
        TopologyError: its sources or assumptions are no text.
    """
    _texts(graph)
    assumed = {text.partition(":")[0].split(" ")[0] for text in graph.graph.get("assumptions", ())}
    known = assumed | set(graph.graph.get("sources", ()))
    return [fact for fact in facts(graph) if fact not in known]


def _kinds(graph: "nx.DiGraph") -> None:
    """Check G1."""
    if not graph.is_directed() or graph.is_multigraph():
        raise TopologyError(f"G1: a topology is a networkx.DiGraph, got {type(graph).__name__}")
    if not isinstance(graph.graph.get("name"), str) or not graph.graph["name"]:
        raise TopologyError(f"G1: a topology has a name, got {graph.graph.get('name')!r}")
    if not graph.graph["name"].isprintable():
        raise TopologyError(f"G1: a topology's name can be printed: got {graph.graph['name']!r}")
    for text in GRAPH_TEXTS:
        if not _is_text(graph.graph.get(text)):
            raise TopologyError(f"G1: the {text} of a topology is text: got {_shown(graph.graph[text])}")
    for node, data in graph.nodes(data=True):
        if isinstance(node, str) and not node.isprintable():
            raise TopologyError(f"G1: a node's name can be printed: got {_shown(node)}")
        kind = data.get("kind")
        if not isinstance(kind, str) or kind not in NODE_KINDS:
            raise TopologyError(f"G1: a node's kind is one of {', '.join(NODE_KINDS)}: {node} has {_shown(kind)}")
        for text in NODE_TEXTS:
            if not _is_text(data.get(text)):
                raise TopologyError(f"G1: the {text} of a node is text: {node} has {_shown(data[text])}")


def _ranks(graph: "nx.DiGraph") -> None:
    """Check G2."""
    owners: dict[int, str] = {}
    for node, data in graph.nodes(data=True):
        rank = data.get("rank")
        if data["kind"] != "gpu":
            if rank is not None:
                raise TopologyError(f"G2: only a GPU has a rank: {node}, a {data['kind']}, has {rank!r}")
            continue
        if isinstance(rank, bool) or not isinstance(rank, Integral):
            raise TopologyError(f"G2: a GPU's rank is a whole number: {node} has {rank!r}")
        if rank in owners:
            raise TopologyError(f"G2: each rank is there once: {owners[int(rank)]} and {node} both have {rank}")
        owners[int(rank)] = node
    if not owners:
        raise TopologyError(f"G2: a topology has at least one GPU: {graph.graph['name']} has none")
    for rank, node in owners.items():
        if not 0 <= rank < len(owners):
            raise TopologyError(f"G2: the ranks of {len(owners)} GPUs are below that: {node} has {rank}")


def _gpu_numbers(graph: "nx.DiGraph") -> None:
    """Check G3."""
    for node, data in graph.nodes(data=True):
        if data["kind"] != "gpu":
            continue
        for number in GPU_NUMBERS:
            value = data.get(number)
            absent = value is None and number != "flop_rate"
            if not absent and not _within(value, 1, LARGEST):
                raise TopologyError(f"G3: {number} of a GPU is from 1 to {LARGEST:g}: {node} has {_shown(value)}")


def _links(graph: "nx.DiGraph") -> None:
    """Check G4, G5 and G6."""
    for a, b, data in graph.edges(data=True):
        bandwidth, latency = data.get("bandwidth"), data.get("latency")
        if a == b:
            raise TopologyError(f"G4: a link joins two nodes: {a} is joined to itself")
        if not _within(bandwidth, 1, LARGEST):
            raise TopologyError(f"G4: a link's B/s are from 1 to {LARGEST:g}: {a} -> {b} has {_shown(bandwidth)}")
        if data.get("expected") is not None and not _within(data["expected"], 1, LARGEST):
            expected = _shown(data["expected"])
            raise TopologyError(f"G4: a link's expected B/s are from 1 to {LARGEST:g}: {a} -> {b} has {expected}")
        if not _within(latency, 0, LONGEST):
            raise TopologyError(f"G5: a link's seconds are from 0 to {LONGEST:g}: {a} -> {b} has {_shown(latency)}")
        if data.get("kind") not in LINK_KINDS:
            kinds = ", ".join(LINK_KINDS)
            raise TopologyError(f"G6: a link's kind is one of {kinds}: {a} -> {b} has {data.get('kind')!r}")
        if not isinstance(data.get("offloaded"), bool):
            offloaded = data.get("offloaded")
            raise TopologyError(f"G6: a link's offloaded is True or False: {a} -> {b} has {offloaded!r}")


def _reach(graph: "nx.DiGraph") -> None:
    """Check G7: whoever is reached from rank 0 and reaches it, reaches all."""
    import networkx as nx

    first, *others = gpus(graph)
    below, above = nx.descendants(graph, first), nx.ancestors(graph, first)
    for node in others:
        if node not in below:
            raise TopologyError(f"G7: every GPU reaches every other: no path from {first} to {node}")
        if node not in above:
            raise TopologyError(f"G7: every GPU reaches every other: no path from {node} to {first}")


def _accounts(graph: "nx.DiGraph") -> None:
    """Check G8."""
    missing = unaccounted(graph)
    if missing:
        where = graph.graph["name"]
        raise TopologyError(f"G8: every number has a source or an assumption: {where} has none for {missing[0]}")


def _texts(graph: "nx.DiGraph") -> None:
    """Check that all that is said of a graph can be printed: texts by fact, and lists of texts."""
    name, sources = graph.graph.get("name"), graph.graph.get("sources", {})
    if not isinstance(sources, Mapping) or not all(isinstance(x, str) for pair in sources.items() for x in pair):
        raise TopologyError(f"G8: sources are texts by fact: {name} has {_shown(sources)}")
    said = {key: graph.graph.get(key, ()) for key in REMARKS}
    for key, texts in said.items():
        if not isinstance(texts, list | tuple) or not all(isinstance(x, str) for x in texts):
            raise TopologyError(f"G8: {key} are a list of texts: {name} has {_shown(texts)}")
    for key, texts in {"sources": [x for pair in sources.items() for x in pair], **said}.items():
        for text in texts:
            if not text.isprintable():
                raise TopologyError(f"G8: what {key} say can be printed: {name} has {_shown(text)}")


def _affinity(graph: "nx.DiGraph") -> None:
    """Check G9."""
    for node, nic in graph.nodes(data="nic"):
        if nic is not None and (nic not in graph or graph.nodes[nic]["kind"] != "nic"):
            raise TopologyError(f"G9: the NIC that a GPU names is a NIC: {node} has {nic!r}")


def _is_text(value: object) -> bool:
    """Tell whether a value is text that can be printed, or not there."""
    return value is None or (isinstance(value, str) and value.isprintable())


def _within(value: Any, least: float, most: float) -> bool:
    """Tell whether value is a real number in a range."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    return real and bool(least <= value <= most)


def _shown(value: object) -> str:
    """Write a value, cut to a length that fits a line."""
    return cut(repr(value), 40)
