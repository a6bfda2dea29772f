"""The laws of a topology: what every graph must keep, whoever wrote it.

G1  every node is of a known kind, and the graph has a name
G2  every GPU has a rank; the ranks are 0 .. P-1, once each
G3  every number of a GPU is positive and finite; flop_rate is there
G4  every link joins two nodes and has a positive, finite bandwidth
G5  every link has a finite latency of at least 0
G6  every link is of a known kind and says whether it is offloaded
G7  every GPU reaches every other
G8  every number has a source or an assumption
G9  the NIC that a GPU names is a NIC
"""

import math
from collections.abc import Iterator
from numbers import Integral, Real
from typing import TYPE_CHECKING

from topologies.links import LINK_KINDS, NODE_KINDS

if TYPE_CHECKING:
    import networkx as nx

GPU_NUMBERS = ("flop_rate", "memory", "memory_bandwidth")


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
    """Return the facts for which the graph lists neither a source nor an assumption."""
    assumed = {text.partition(":")[0].split(" ")[0] for text in graph.graph.get("assumptions", ())}
    known = assumed | set(graph.graph.get("sources", ()))
    return [fact for fact in facts(graph) if fact not in known]


def _kinds(graph: "nx.DiGraph") -> None:
    """Check G1."""
    if not graph.is_directed() or graph.is_multigraph():
        raise TopologyError(f"G1: a topology is a networkx.DiGraph, got {type(graph).__name__}")
    if not isinstance(graph.graph.get("name"), str) or not graph.graph["name"]:
        raise TopologyError(f"G1: a topology has a name, got {graph.graph.get('name')!r}")
    for node, kind in graph.nodes(data="kind"):
        if kind not in NODE_KINDS:
            raise TopologyError(f"G1: a node's kind is one of {', '.join(NODE_KINDS)}: {node} has {kind!r}")


def _ranks(graph: "nx.DiGraph") -> None:
    """Check G2."""
    owners: dict[int, str] = {}
    for node, data in graph.nodes(data=True):
        if data["kind"] != "gpu":
            continue
        rank = data.get("rank")
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
            if not absent and not (_finite(value) and value > 0):
                raise TopologyError(f"G3: {number} of a GPU is positive and finite: {node} has {value!r}")


def _links(graph: "nx.DiGraph") -> None:
    """Check G4, G5 and G6."""
    for a, b, data in graph.edges(data=True):
        bandwidth, latency = data.get("bandwidth"), data.get("latency")
        if a == b:
            raise TopologyError(f"G4: a link joins two nodes: {a} is joined to itself")
        if not (_finite(bandwidth) and bandwidth > 0):
            raise TopologyError(f"G4: a link's bandwidth is positive and finite: {a} -> {b} has {bandwidth!r}")
        if not (_finite(latency) and latency >= 0):
            raise TopologyError(f"G5: a link's latency is finite and at least 0: {a} -> {b} has {latency!r}")
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


def _affinity(graph: "nx.DiGraph") -> None:
    """Check G9."""
    for node, nic in graph.nodes(data="nic"):
        if nic is not None and (nic not in graph or graph.nodes[nic]["kind"] != "nic"):
            raise TopologyError(f"G9: the NIC that a GPU names is a NIC: {node} has {nic!r}")


def _finite(value: object) -> bool:
    """Tell whether value is a real, finite number."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
