"""GPUs that cannot reach each other, or a NIC, without passing through a CPU: no peer-to-peer, no GPUDirect, ACS.

A switch that hands nothing on is two one-way nodes X/up and X/down: what goes up comes down only by way of the CPU.
"""

from functools import partial
from typing import TYPE_CHECKING

from topologies.findings import Finding

if TYPE_CHECKING:
    import networkx as nx


def find(graph: "nx.DiGraph") -> list[Finding]:
    """Return a finding for the one-way nodes below which GPUs meet a NIC, and one where GPUs alone meet.

    Another is for NICs X behind a CPU X/cpu of their own, which stands for memory that GPUs copy to and from.
    """
    nics: list[str] = []
    gpus: list[str] = []
    for node, kind in graph.nodes(data="kind"):
        stem, _, end = node.rpartition("/")
        if kind != "pcie" or end != "up" or f"{stem}/down" not in graph or graph.has_edge(node, f"{stem}/down"):
            continue
        below = {graph.nodes[tail]["kind"] for tail in graph.predecessors(node)}
        (nics if "nic" in below else gpus).append(stem)
    copied = [nic for nic, kind in graph.nodes(data="kind") if kind == "nic" and f"{nic}/cpu" in graph]
    found = []
    if nics:
        text = "GPU to NIC goes up to the CPU and down again, twice over one link (ACS is on, or GPUDirect is off)"
        found.append(Finding("NIC traffic through the CPU", tuple(nics), text, partial(_mended, graph, nics)))
    if copied:
        text = "GPU to NIC goes through the CPU's memory (GPUDirect is off)"
        found.append(Finding("NIC traffic through the CPU", tuple(copied), text, partial(_direct, graph, copied)))
    if gpus:
        text = "GPUs reach each other through host memory only"
        found.append(Finding("no peer-to-peer over PCIe", tuple(gpus), text, partial(_mended, graph, gpus)))
    return found


def _direct(graph: "nx.DiGraph", nics: list[str]) -> "nx.DiGraph":
    """Return a copy in which NICs are cabled to the GPUs that copy to their memory."""
    copy = graph.copy()
    for nic in nics:
        memory = f"{nic}/cpu"
        for gpu in graph.successors(memory):
            if gpu != nic:
                copy.add_edge(gpu, nic, **graph.edges[gpu, memory])
                copy.add_edge(nic, gpu, **graph.edges[memory, gpu])
        copy.remove_node(memory)
    return copy


def _mended(graph: "nx.DiGraph", stems: list[str]) -> "nx.DiGraph":
    """Return a copy in which switches hand on what comes up, as much as all their ports together send."""
    copy = graph.copy()
    for stem in stems:
        links = [link for _, _, link in graph.in_edges(f"{stem}/up", data=True)]
        every = sum(link["bandwidth"] for link in links)
        copy.add_edge(f"{stem}/up", f"{stem}/down", **{**links[0], "bandwidth": every, "latency": 0.0})
    return copy
