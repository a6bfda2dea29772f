"""What machines of eight NVIDIA GPUs on NVSwitch have in common: one machine as a graph, for cluster() to copy.

The NVSwitch chips are one node: a GPU has as many links to each chip, and what it sends is spread over all of them.
"""

import networkx as nx

from topologies.cluster import machine
from topologies.hardware import Gpu
from topologies.links import (
    GPUDIRECT_LINK,
    NVLINK_SOURCE,
    NVSWITCH_LINK,
    PCIE4_SOURCE,
    PCIE5_SOURCE,
    PCIE_SWITCH_LINK,
    Link,
    cable,
)
from topologies.nics import Network

PCIE_SOURCES = {31.5e9: PCIE4_SOURCE, 63e9: PCIE5_SOURCE}


def own_nics(name: str, gpu: Gpu, network: Network) -> nx.DiGraph:
    """Return a machine whose GPU i reaches NIC i over PCIe without sharing."""
    one = _switched(name, gpu, network)
    one.graph["assumptions"].append(GPUDIRECT_LINK.of("pcie.latency"))
    for i in range(8):
        one.nodes[f"gpu{i}"]["nic"] = f"nic{i}"
        one.add_node(f"nic{i}", kind="nic")
        cable(one, f"gpu{i}", f"nic{i}", Link("pcie", gpu.pcie_bandwidth, GPUDIRECT_LINK.latency))
    return one


def paired(name: str, gpu: Gpu, network: Network, nics: int = 8) -> nx.DiGraph:
    """Return a machine of four PCIe switches, each with two GPUs and with a quarter of the NICs.

    The CPUs, through which the PCIe switches also reach each other, are left out: NVLink and the fabric carry what a
    GPU sends.

    Args:
        nics: 8, one for each GPU, or 4, one for two.
    """
    one = _switched(name, gpu, network)
    one.graph["assumptions"] += [
        PCIE_SWITCH_LINK.of("pcie.latency of a GPU"),
        "pcie.latency of a NIC: 0 us a link; it is counted in the latency between two NICs",
    ]
    for i in range(8):
        one.nodes[f"gpu{i}"]["nic"] = f"nic{i * nics // 8}"
        one.add_node(f"pcie{i // 2}", kind="pcie")
        cable(one, f"gpu{i}", f"pcie{i // 2}", Link("pcie", gpu.pcie_bandwidth, PCIE_SWITCH_LINK.latency))
    for k in range(nics):
        one.add_node(f"nic{k}", kind="nic")
        cable(one, f"pcie{k * 4 // nics}", f"nic{k}", Link("pcie", gpu.pcie_bandwidth, 0.0))
    return one


def _switched(name: str, gpu: Gpu, network: Network) -> nx.DiGraph:
    """Return a machine of eight GPUs around an NVSwitch, without NICs yet."""
    one = machine(name, gpu)
    one.graph["network"] = network
    one.graph["sources"] |= {
        "nvlink.bandwidth": gpu.source if "links" in gpu.recalled else NVLINK_SOURCE,
        "pcie.bandwidth": PCIE_SOURCES[gpu.pcie_bandwidth],
    }
    one.graph["assumptions"].append(NVSWITCH_LINK.of("nvlink.latency"))
    one.add_node("nvswitch", kind="nvswitch")
    for i in range(8):
        one.add_node(f"gpu{i}", **gpu.node(i))
        cable(one, f"gpu{i}", "nvswitch", Link("nvlink", gpu.link_total, NVSWITCH_LINK.latency))
    return one
