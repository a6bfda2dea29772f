"""How a machine hangs on its fabric: its NICs, how fast they are, and what goes between a GPU and a NIC.

    gpudirect=1                    gpudirect=0, where GPU and NIC share a PCIe switch
    gpu -- pcie -- nic             gpu -- pcie -> pcie/up -> cpu -> pcie/down -> nic       and back
                                   there is no way from `up` to `down` but through the CPU's memory

These are options of every fabric (`rail:nics=4,pxn=1`) that are about the machine: `cluster` takes them out of the
fabric, changes the machine before it is copied, and marks the switches between rails where PXN avoids these.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import networkx as nx

from topologies.fabrics import MOST, Fabric, ratio, split
from topologies.links import HOST_PROXY
from topologies.nicplaces import copied, host_of, with_nics
from topologies.units import in_range

SPINE_TOLL = 2  # more than the GPU that PXN passes instead


class Attachment(NamedTuple):
    """What was chosen; the machine as it is where nothing was.

    Attributes:
        nics: NICs of each host; the machine's own if None.
        gbit: Gbit/s of each; the make's own if None.
        pxn: 1: what goes to another rail takes NVLink to the GPU of that rail first. 0: it takes the spine.
        gpudirect: 1: a NIC reads and writes the GPU's memory. 0: the CPU's, to and from which GPUs copy.
    """

    nics: int | None = None
    gbit: float | None = None
    pxn: int = 0
    gpudirect: int = 1


def attachment(fabric: Fabric) -> tuple[Attachment, Fabric]:
    """Return what a fabric's options say of the machine, and the fabric without them.

    Raises:
        ValueError: a number out of range.
    """
    bare, chosen = split(fabric)
    found = Attachment(**chosen)  # type: ignore[arg-type]
    if found.nics is not None:
        in_range(found.nics, "nics of a fabric", maximum=int(MOST))
    if found.gbit is not None:
        ratio(found.gbit, "gbit of a fabric")
    in_range(found.pxn, "pxn of a fabric", 0, 1)
    in_range(found.gpudirect, "gpudirect of a fabric", 0, 1)
    return found, bare


def attached(one: nx.DiGraph, chosen: Attachment) -> nx.DiGraph:
    """Return a machine with its NICs as chosen; the same where nothing was.

    Raises:
        ValueError: a number of NICs that its GPUs cannot share equally.
    """
    if chosen.nics is not None:
        one = with_nics(one, chosen.nics)
    if chosen.gbit is not None or not chosen.gpudirect:
        one = copied(one)
    if chosen.gbit is not None:
        one.graph["network"] = one.graph["network"].at(chosen.gbit)
    if not chosen.gpudirect:
        _through_memory(one)
    return one


def through_nvlink(graph: nx.DiGraph) -> None:
    """Let routes avoid switches without NICs where a GPU on the way does (PXN, PCI x NVLink).

    Raises:
        ValueError: every switch has NICs, so that nothing lies between rails.
    """
    near = {switch for nic in _of(graph, "nic") for switch in graph.succ[nic]}
    others = ("host", "group")  # a switch of a machine; one of a dragonfly's group, where others have NICs
    between = [
        switch
        for switch in _of(graph, "switch")
        if switch not in near and not any(key in graph.nodes[switch] for key in others)
    ]
    if not between:
        raise ValueError(f"pxn=1 changes nothing: no switch of {graph.graph['name']} lies between others only")
    for switch in between:
        graph.nodes[switch]["toll"] = SPINE_TOLL
    graph.graph["assumptions"].append(
        "pxn: what a spine would carry goes over NVLink to the GPU of the other end's rail, which it is taken to cost "
        "no time; between leaves that no GPU joins it takes the spine"
    )


def _through_memory(one: nx.DiGraph) -> None:
    """Let every NIC of a machine reach GPUs through a CPU's memory only."""
    for nic in _of(one, "nic"):
        for place in dict.fromkeys((*one.succ[nic], *one.pred[nic])):
            kind = one.nodes[place]["kind"]
            if kind == "gpu":
                _stage_gpu(one, nic, place)
            elif kind == "pcie" and any(_leads_to_gpu(one, near, nic, place) for near in (one.succ, one.pred)):
                _stage_switch(one, nic, place)
        for link in (*one.succ[nic].values(), *one.pred[nic].values()):
            link["latency"] += HOST_PROXY.latency
    one.graph["assumptions"] += [
        HOST_PROXY.of("pcie.latency of a NIC without GPUDirect"),
        "pcie: without GPUDirect a NIC reaches GPUs through the CPU's memory, over PCIe links as fast as before; the "
        "memory's own speed is not counted",
    ]


def _stage_gpu(one: nx.DiGraph, nic: str, gpu: str) -> None:
    """Put memory between a NIC and a GPU that are cabled to each other."""
    cpu = _memory(one, f"{nic}/cpu", nic)
    to_nic, to_gpu = one.edges[gpu, nic], one.edges[nic, gpu]
    one.remove_edges_from([(gpu, nic), (nic, gpu)])
    one.add_edge(gpu, cpu, **to_nic)
    one.add_edge(cpu, gpu, **to_gpu)
    one.add_edge(cpu, nic, **{**to_nic, "latency": 0.0})
    one.add_edge(nic, cpu, **{**to_gpu, "latency": 0.0})


def _stage_switch(one: nx.DiGraph, nic: str, pcie: str) -> None:
    """Put memory between a NIC and the GPUs of its PCIe switch, which still reach each other through that."""
    up, down = f"{pcie}/up", f"{pcie}/down"
    if up not in one:
        one.add_nodes_from((up, down), kind="pcie", **host_of(one, pcie))
        # A GPU may be behind further switches, as under the bridges that some files show.
        lanes = [one.edges[pcie, near] for near in one.succ[pcie] if one.nodes[near]["kind"] in ("gpu", "pcie")]
        inside = {**lanes[0], "bandwidth": sum(lane["bandwidth"] for lane in lanes), "latency": 0.0}
        cpus = [other for other in one.succ[pcie] if one.nodes[other]["kind"] == "cpu"]
        uplink = dict(one.edges[pcie, cpus[0]]) if cpus else {**lanes[0], "latency": 0.0}
        for cpu in cpus or [_memory(one, f"{pcie}/cpu", pcie)]:
            one.add_edge(up, cpu, **uplink)
            one.add_edge(cpu, down, **uplink)
            one.remove_edges_from([edge for edge in ((pcie, cpu), (cpu, pcie)) if one.has_edge(*edge)])
        one.add_edge(pcie, up, **inside)
        one.add_edge(down, pcie, **inside)
    for tail, head, end in ((nic, pcie, (nic, up)), (pcie, nic, (down, nic))):
        if one.has_edge(tail, head):
            one.add_edge(*end, **one.edges[tail, head])
            one.remove_edge(tail, head)


def _memory(one: nx.DiGraph, name: str, beside: str) -> str:
    """Add a CPU, on the host of a node beside it, unless it is there."""
    if name not in one:
        one.add_node(name, kind="cpu", **host_of(one, beside))
    return name


def _leads_to_gpu(one: nx.DiGraph, near: Mapping[str, Iterable[str]], nic: str, place: str) -> bool:
    """Tell whether what a NIC sends into, or gets from, a PCIe switch meets a GPU before a CPU.

    Args:
        near: the nodes that the links of each lead to, or come from.
    """
    seen, front = {nic, place}, [place] if place in near[nic] else []
    while front:
        for node in near[front.pop()]:
            kind = one.nodes[node]["kind"]
            if kind == "gpu":
                return True
            if node not in seen and kind == "pcie":
                seen.add(node)
                front.append(node)
    return False


def _of(graph: nx.DiGraph, kind: str) -> list[str]:
    """Return the nodes of a kind, in order."""
    return [node for node, found in graph.nodes(data="kind") if found == kind]
