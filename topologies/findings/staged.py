"""GPUs of one CPU that reach each other through its memory, for want of peer-to-peer access.

Over one link there and another back such a copy takes no bandwidth that the model has; what it costs is latency.
"""

from functools import partial
from typing import TYPE_CHECKING

from topologies.findings import Finding
from topologies.links import PCIE_CPU_LINK
from topologies.units import format_seconds

if TYPE_CHECKING:
    import networkx as nx

DIRECT = ("nvlink", "xgmi")  # links by which GPUs reach each other without PCIe


def find(graph: "nx.DiGraph") -> list[Finding]:
    """Return one finding for the GPUs that say they have no `peer_to_peer` access and are cabled to a CPU."""
    gpus = [node for node, access in graph.nodes(data="peer_to_peer") if access is False and _cpus(graph, node)]
    if len(gpus) < 2:
        return []
    now = 2 * max(graph.edges[gpu, cpu]["latency"] for gpu in gpus for cpu in _cpus(graph, gpu))
    mended = 2 * PCIE_CPU_LINK.latency
    text = (
        f"no peer-to-peer access: about {format_seconds(now)} between two GPUs of a CPU, {format_seconds(mended)} with "
        "it; what the copies take of the memory's bandwidth is not modelled"
    )
    return [Finding("through host memory", tuple(gpus), text, partial(_mended, graph, gpus), by_design=True)]


def _cpus(graph: "nx.DiGraph", gpu: str) -> list[str]:
    """Return the CPUs that a GPU is cabled to; none, where it has links to other GPUs."""
    links = list(graph.out_edges(gpu, data="kind"))
    if any(kind in DIRECT for _, _, kind in links):
        return []
    return [head for _, head, _ in links if graph.nodes[head]["kind"] == "cpu" and graph.has_edge(head, gpu)]


def _mended(graph: "nx.DiGraph", gpus: list[str]) -> "nx.DiGraph":
    """Return a copy in which these GPUs read each other's memory."""
    copy = graph.copy()
    for gpu in gpus:
        del copy.nodes[gpu]["peer_to_peer"]
        for cpu in _cpus(graph, gpu):
            for link in ((gpu, cpu), (cpu, gpu)):
                copy.edges[link]["latency"] = min(copy.edges[link]["latency"], PCIE_CPU_LINK.latency)
    return copy
