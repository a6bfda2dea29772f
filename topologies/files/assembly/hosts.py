"""PCIe and NICs of a machine from files: which of them, the tree with its numbers, and what it is that joins NICs."""

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from topologies.files.assembly import pcie
from topologies.files.assembly.guess import Models, nic_speed
from topologies.files.assembly.merge import Merged, short
from topologies.files.assembly.nearness import Nearness, own_nics, used_nics
from topologies.files.facts import MachineFacts
from topologies.files.text.wording import listed
from topologies.hardware import Gpu
from topologies.links import (
    GPUDIRECT_LINK,
    HOST_LINK,
    IB_SWITCH_LINK,
    NCCL_SOURCE,
    NIC_LINK,
    PCIE_CPU_LINK,
    PCIE_ROOT_LINK,
    PCIE_SWITCH_LINK,
    SOCKET_LINK,
    Link,
    cable,
)
from topologies.nics import Network
from topologies.units import GB, Gbit, format_rate

if TYPE_CHECKING:
    import networkx as nx

# What NCCL takes for the link between two CPUs, GB/s, and of which: by their vendor, family and least model,
_CPUS = (
    ("GenuineIntel", 6, 207, 40.0, "of Emerald Rapids"),
    ("GenuineIntel", 6, 143, 22.0, "QPI of Sapphire Rapids"),
    ("GenuineIntel", 6, 85, 10.0, "QPI of Skylake and later"),
    ("GenuineIntel", 6, 0, 6.0, "QPI of Broadwell and before"),
    ("AuthenticAMD", 0, 0, 16.0, "AMD's link"),
)
# or else from so many PCIe GB/s of a GPU on, whose machines have such CPUs.
_SOCKETS = (
    (50.0, 22.0, "QPI of Sapphire Rapids, as in hosts of PCIe 5"),
    (25.0, 16.0, "AMD's link, as in hosts of PCIe 4"),
    (0.0, 10.0, "QPI of Skylake, as in hosts of PCIe 3"),
)


def attach(graph: "nx.DiGraph", merged: Merged, models: Models, nic: float | None) -> None:
    """Add the NICs of a machine and its PCIe tree; neither, where NVLink joins all GPUs and there is no NIC.

    Args:
        graph: has the GPUs and their NVLinks.
        nic: bytes/s of NICs as asked for; overrides none that a file states.
    """
    facts = merged.facts
    gpus = [f"gpu{gpu.index}" for gpu in facts.gpus]
    near = Nearness(facts)
    used, left = used_nics(facts, near)
    for reason in dict.fromkeys(why for _, why in left):
        names = [name for name, why in left if why == reason]
        graph.graph["left_out"].append(f"{merged.who('nics').partition(' (')[0]}: NICs {listed(names)}: {reason}")
    joined = _joined(graph, gpus)
    if not used and nic is not None:
        _one_each(graph, gpus, models.gpus[0], nic)
    if not used and joined:
        graph.graph["left_out"].append(f"PCIe: {facts.link_kind} joins all GPUs, and the files show no NIC")
        return
    tree = _tree(graph, merged, {**dict.fromkeys(gpus, "gpu"), **dict.fromkeys(used, "nic")}, near)
    direct = _peer_to_peer(graph, merged, models.gpus[0])
    if not direct:
        for gpu in gpus:
            graph.nodes[gpu]["peer_to_peer"] = False
    _number(graph, tree if direct else pcie.staged(tree), merged, models.gpus[0], direct)
    if used:
        for gpu, own in own_nics(gpus, used, near).items():
            graph.nodes[gpu]["nic"] = own
        _network(graph, merged, used, models.gpus[0], nic)


def _joined(graph: "nx.DiGraph", gpus: list[str]) -> bool:
    """Tell whether every GPU reaches every other already."""
    import networkx as nx

    return len(gpus) == 1 or set(gpus[1:]) <= nx.descendants(graph, gpus[0])


def _one_each(graph: "nx.DiGraph", gpus: list[str], model: Gpu, nic: float) -> None:
    """Give each GPU a NIC of its own, beside it on PCIe."""
    slot = _slot(model)
    for i, gpu in enumerate(gpus):
        graph.add_node(f"nic{i}", kind="nic")
        graph.nodes[gpu]["nic"] = f"nic{i}"
        cable(graph, gpu, f"nic{i}", Link("pcie", slot, GPUDIRECT_LINK.latency))
    graph.graph["assumptions"] += [
        f"nic: one of {format_rate(nic)} for each GPU, as asked for; the files show none",
        f"pcie.bandwidth: {slot / GB:g} GB/s, an x16 slot of {model.name}",
        GPUDIRECT_LINK.of("pcie.latency"),
    ]
    graph.graph["network"] = Network("NICs as asked for", nic, _asked(nic), NIC_LINK, IB_SWITCH_LINK)


def _tree(graph: "nx.DiGraph", merged: Merged, devices: dict[str, str], near: Nearness) -> "nx.DiGraph":
    """Return the PCIe tree of these devices: as a file has it, or made of what is known of their nearness."""
    facts, assumed = merged.facts, graph.graph["assumptions"]
    if facts.tree is not None:
        return pcie.pruned(facts.tree, devices)
    tree, bent = pcie.tree(devices, near)
    assumed += bent
    who = merged.who("near" if facts.near else "gpus").partition(" (")[0]
    cpus = [node for node, kind in tree.nodes(data="kind") if kind == "cpu"]
    if not facts.near and all(gpu.numa is None for gpu in facts.gpus):
        tree, _ = pcie.tree(devices, Nearness(_on_one_cpu(merged)))
        assumed.append(f"pcie: all devices on one CPU; {who} does not say where they are")
    elif len(cpus) > 2:
        assumed.append(f"socket: each two of {len(cpus)} CPUs (NUMA nodes) are joined; {who} does not say which")
    return tree


def _on_one_cpu(merged: Merged) -> MachineFacts:
    """Return the facts with all devices on one NUMA node."""
    facts = merged.facts
    gpus = tuple(replace(gpu, numa=0) for gpu in facts.gpus)
    return replace(facts, gpus=gpus, nics=tuple(replace(nic, numa=0) for nic in facts.nics))


def _peer_to_peer(graph: "nx.DiGraph", merged: Merged, model: Gpu) -> bool:
    """Return whether devices may read each other's memory over PCIe; say so where no file does."""
    said = merged.facts.peer_to_peer
    if said is not None:
        if not said:
            who = merged.who("peer_to_peer")
            graph.graph["assumptions"].append(f"pcie: through host memory, without peer-to-peer access; {who} says so")
        return said
    if model.name.startswith("RTX") and "A6000" not in model.name:
        graph.graph["assumptions"].append(
            f"pcie: through host memory; the driver lets no {model.name} read another, topo -p2p r would say"
        )
        return False
    if merged.facts.gpus[1:] and not merged.facts.links:
        graph.graph["assumptions"].append("pcie: GPUs have peer-to-peer access; topo -p2p r would say")
    return True


def _number(graph: "nx.DiGraph", tree: "nx.DiGraph", merged: Merged, model: Gpu, direct: bool) -> None:
    """Add a tree to the machine, with bandwidths and latencies, and account for them."""
    slot, kinds = _slot(model), {node: data["kind"] for node, data in tree.nodes(data=True)}
    socket, which = _socket(merged, slot)
    for node, data in tree.nodes(data=True):
        if node in graph and graph.nodes[node]["kind"] != data["kind"]:
            both = f"a {data['kind']} and a {graph.nodes[node]['kind']}"
            raise ValueError(f"{merged.facts.file}: {both} are called {node}")
        graph.add_node(node, **data)
    unknown: Counter[str] = Counter()
    for tail, head, data in tree.edges(data=True):
        kind = data["kind"]
        rate = data.get("bandwidth")
        unknown[kind] += rate is None
        rate = rate or (slot if kind == "pcie" else socket)
        latency = SOCKET_LINK.latency if kind == "socket" else _latency({kinds[tail], kinds[head]}, direct)
        graph.add_edge(tail, head, kind=kind, bandwidth=rate, latency=latency, offloaded=True)
    _account(graph, tree, merged, unknown, f"{slot / GB:g} GB/s, an x16 slot of {model.name}")
    graph.graph["assumptions"] += _latencies(direct)
    if any(kind == "socket" for _, _, kind in tree.edges(data="kind")):
        graph.graph["assumptions"] += [
            f"socket.bandwidth: {socket / GB:g} GB/s; {which}, by {NCCL_SOURCE}",
            SOCKET_LINK.of("socket.latency"),
        ]


def _socket(merged: Merged, slot: float) -> tuple[float, str]:
    """Return the bytes/s of the link between two CPUs, and why."""
    if merged.facts.cpu is not None:
        vendor, family, model = merged.facts.cpu
        for name, least_family, least_model, rate, which in _CPUS:
            if vendor == name and family >= least_family and model >= least_model:
                return rate * GB, f"{which}, which {merged.who('cpu').partition(' (')[0]} names"
    return next((rate * GB, why) for least, rate, why in _SOCKETS if slot >= least * GB)


def _account(graph: "nx.DiGraph", tree: "nx.DiGraph", merged: Merged, unknown: Counter[str], slot: str) -> None:
    """Say where the numbers of PCIe come from."""
    every = sum(kind == "pcie" for _, _, kind in tree.edges(data="kind"))
    if unknown["pcie"] < every:
        graph.graph["sources"]["pcie.bandwidth"] = merged.who("tree")
    if unknown["pcie"]:
        part = "" if unknown["pcie"] == every else f" for {unknown['pcie'] // 2} of {every // 2} links"
        who = merged.who("tree" if "tree" in merged.said else "gpus").partition(" (")[0]
        graph.graph["assumptions"].append(f"pcie.bandwidth: {slot}{part}; {who} does not say the generation")


def _latencies(direct: bool) -> list[str]:
    """Return the assumptions about the latency of PCIe, with peer-to-peer access or without."""
    texts = [PCIE_SWITCH_LINK.of("pcie.latency of a GPU at a switch")]
    if direct:
        texts += [PCIE_CPU_LINK.of("pcie.latency of a GPU at a CPU"), PCIE_ROOT_LINK.of("pcie.latency of a switch")]
    else:
        texts = [HOST_LINK.of("pcie.latency of a GPU at a CPU, or of it and its switch together")]
    return [*texts, "pcie.latency of a NIC: 0 us a link; it is counted in the 1.6 us between two NICs"]


def _latency(kinds: set[str], direct: bool) -> float:
    """Return the seconds of a PCIe link by the kinds of its ends."""
    if "nic" in kinds:
        return 0.0
    if "gpu" in kinds and "cpu" in kinds:
        return (PCIE_CPU_LINK if direct else HOST_LINK).latency
    if "gpu" in kinds:
        return PCIE_SWITCH_LINK.latency
    return PCIE_ROOT_LINK.latency if direct or "cpu" not in kinds else HOST_LINK.latency - PCIE_SWITCH_LINK.latency


def _network(graph: "nx.DiGraph", merged: Merged, used: list[str], model: Gpu, nic: float | None) -> None:
    """Say how fast the NICs are, and what their network is made of."""
    speeds = {port.name: port.bandwidth for port in merged.facts.nics}
    said = next((speeds[name] for name in used if speeds[name]), None)
    home = short(merged.facts.file)
    if said is not None:
        network = Network(f"NICs of {home}", said, merged.who("speeds"), NIC_LINK, IB_SWITCH_LINK)
        graph.graph["cited"] = merged.who("speeds")
        if nic is not None and nic != said:
            raise ValueError(
                f"nic {format_rate(nic)}: {merged.who('speeds')} says {format_rate(said)}; leave --nic out"
            )
    elif nic is not None:
        network = Network(f"NICs of {home}", nic, _asked(nic), NIC_LINK, IB_SWITCH_LINK)
    else:
        guess, reason = nic_speed(merged.facts, model)
        who = merged.who("nics").partition(" (")[0]
        why = f"{guess / Gbit:.3g} Gbit/s; {reason}; {who} does not say, --nic would"
        network = Network(f"NICs of {home}", guess, why, NIC_LINK, IB_SWITCH_LINK)
    graph.graph["network"] = network


def _asked(nic: float) -> str:
    """Say that a speed was asked for."""
    return f"{nic / Gbit:.3g} Gbit/s; as asked for"


def _slot(model: Gpu) -> float:
    """Return bytes/s of a GPU's x16 slot."""
    return model.pcie_bandwidth or 31.5 * GB
