"""GPUs that cannot reach each other, or a NIC, without passing through a CPU: no peer-to-peer, no GPUDirect, ACS.

A switch that hands nothing on is two one-way nodes X/up and X/down: what goes up comes down only by way of the CPU.
"""

from functools import partial
from typing import TYPE_CHECKING

from topologies.findings import Finding, widened
from topologies.units import GB, format_rate

if TYPE_CHECKING:
    import networkx as nx

HOST_RATE = 16 * GB  # of a NIC without GPUDirect on PCIe 4, called normal: https://github.com/NVIDIA/nccl/issues/412
HOST_BANDWIDTH = HOST_RATE / 0.87  # of which PCIe reaches that
KNOWN = 31.5 * GB  # PCIe of which that is known


def find(graph: "nx.DiGraph") -> list[Finding]:
    """Return a finding for the one-way nodes below which GPUs meet a NIC, and one where GPUs alone meet.

    Another is for NICs X behind a CPU X/cpu of their own, which stands for memory that GPUs copy to and from.
    """
    nics: list[str] = []
    gpus: list[str] = []
    barred = True  # the GPUs have no peer-to-peer access, so that nothing could pass the switches
    for node, kind in graph.nodes(data="kind"):
        stem, _, end = node.rpartition("/")
        if kind != "pcie" or end != "up" or f"{stem}/down" not in graph or graph.has_edge(node, f"{stem}/down"):
            continue
        below = {graph.nodes[tail]["kind"] for tail in graph.predecessors(node)}
        (nics if "nic" in below else gpus).append(stem)
        barred &= any(graph.nodes[tail].get("peer_to_peer") is False for tail in graph.predecessors(node))
    copied = [nic for nic, kind in graph.nodes(data="kind") if kind == "nic" and f"{nic}/cpu" in graph]
    found = []
    if nics:
        text = "GPU to NIC goes up to the CPU and down again, twice over one link (ACS is on, or GPUDirect is off)"
        mended = partial(_mended, graph, nics)
        found.append(Finding("NIC traffic through the CPU", tuple(nics), text, mended, by_design=barred))
    if copied:
        text = "GPU to NIC goes through the CPU's memory (GPUDirect is off)"
        slow = [link for nic in copied for link in _copies(graph, nic) if link[2] > HOST_BANDWIDTH]
        known = [link for link in slow if graph.edges[link[:2]]["bandwidth"] <= KNOWN]
        if known:
            text += f"; copies measured at {format_rate(HOST_RATE)}"
        if len(known) < len(slow):
            text += "; what the copies take is not modelled"
        as_is = partial(widened, graph, [(tail, head, HOST_BANDWIDTH) for tail, head, _ in known]) if known else None
        mended = partial(_direct, graph, copied)
        found.append(Finding("NIC traffic through the CPU", tuple(copied), text, mended, as_is=as_is))
    if gpus:
        text = "GPUs reach each other through host memory only"
        mended = partial(_mended, graph, gpus)
        found.append(Finding("no peer-to-peer over PCIe", tuple(gpus), text, mended, by_design=barred))
    return found


def _copies(graph: "nx.DiGraph", nic: str) -> list[tuple[str, str, float]]:
    """Return the links between a NIC and the memory that is its own, with their bytes/s."""
    memory = f"{nic}/cpu"
    ends = [end for end in ((memory, nic), (nic, memory)) if graph.has_edge(*end)]
    return [(*end, graph.edges[end]["bandwidth"]) for end in ends]


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
