"""NVIDIA machines of eight GPUs on NVSwitches, joined by a fabric: non-blocking rails unless another is given."""

import networkx as nx

from topologies.cluster import cluster, machine
from topologies.fabrics import Fabric
from topologies.fabrics.rail import rail
from topologies.hardware import GPUS, Gpu
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
from topologies.nics import HDR, NDR, Network


def dgx_a100(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return DGX A100 machines: eight A100-80 on NVSwitch, four PCIe switches of two GPUs and two NICs.

    The six NVSwitch chips are one node: each GPU has two links to each chip. The CPUs, through which the
    PCIe switches also reach each other, are left out: NVLink and the fabric carry what a GPU sends.

    Args:
        nodes: number of machines, at least 1; ranks 8n .. 8n+7 live on machine n.
        fabric: joins the NICs of the machines.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://github.com/NVIDIA/nccl/issues/1505 (which NICs share a PCIe switch with which GPUs);
        https://github.com/stas00/ml-engineering (network/README.md @744d01e): 12 NVLink 3 links of 25 GB/s a
        GPU and direction, eight ConnectX-6 HDR NICs of 25 GB/s.
    """
    gpu = GPUS["A100-SXM4-80"]
    one = _switched("dgx_a100", gpu, HDR)
    one.graph["sources"]["pcie.bandwidth"] = PCIE4_SOURCE
    one.graph["assumptions"] += [
        PCIE_SWITCH_LINK.of("pcie.latency of a GPU"),
        "pcie.latency of a NIC: 0 us a link; it is counted in the 1.6 us between two NICs",
    ]
    for i in range(8):
        one.add_node(f"pcie{i // 2}", kind="pcie")
        cable(one, f"gpu{i}", f"pcie{i // 2}", Link("pcie", gpu.pcie_bandwidth, PCIE_SWITCH_LINK.latency))
        cable(one, f"pcie{i // 2}", f"nic{i}", Link("pcie", gpu.pcie_bandwidth, 0.0))
    return cluster(one, nodes, fabric)


def dgx_h100(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return DGX H100 machines: eight H100 on NVSwitch, one NIC per GPU.

    Args:
        nodes: number of machines, at least 1; ranks 8n .. 8n+7 live on machine n.
        fabric: joins the NICs of the machines.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://github.com/stas00/ml-engineering (network/README.md @744d01e): 18 NVLink 4 links of 25 GB/s a
        GPU and direction, eight ConnectX-7 NDR NICs of 50 GB/s, one per GPU.
    """
    return _hopper("dgx_h100", nodes, GPUS["H100-SXM5-80"], fabric)


def hgx_h200(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return HGX H200 machines: a DGX H100 with H200 GPUs, which differ in their memory.

    Args:
        nodes: number of machines, at least 1; ranks 8n .. 8n+7 live on machine n.
        fabric: joins the NICs of the machines.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        As dgx_h100.
    """
    return _hopper("hgx_h200", nodes, GPUS["H200-SXM-141"], fabric)


def hgx_h800(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return HGX H800 machines: a DGX H100 whose GPUs have NVLink of 200 GB/s each way.

    Args:
        nodes: number of machines, at least 1; ranks 8n .. 8n+7 live on machine n.
        fabric: joins the NICs of the machines.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://github.com/deepseek-ai/DeepEP (docs/legacy.md): measured on H800 (about 160 GB/s of NVLink
        reached), each with a 400 Gb/s ConnectX-7 NIC.
    """
    return _hopper("hgx_h800", nodes, GPUS["H800-SXM5-80"], fabric)


def _hopper(name: str, nodes: int, gpu: Gpu, fabric: Fabric) -> nx.DiGraph:
    """Return machines whose GPU i reaches NIC i over PCIe 5 without sharing."""
    one = _switched(name, gpu, NDR)
    one.graph["sources"]["pcie.bandwidth"] = PCIE5_SOURCE
    one.graph["assumptions"].append(GPUDIRECT_LINK.of("pcie.latency"))
    for i in range(8):
        cable(one, f"gpu{i}", f"nic{i}", Link("pcie", gpu.pcie_bandwidth, GPUDIRECT_LINK.latency))
    return cluster(one, nodes, fabric)


def _switched(name: str, gpu: Gpu, network: Network) -> nx.DiGraph:
    """Return a machine of eight GPUs around an NVSwitch, and eight NICs not yet attached."""
    one = machine(name, gpu)
    one.graph["network"] = network
    one.graph["sources"]["nvlink.bandwidth"] = gpu.source if "links" in gpu.recalled else NVLINK_SOURCE
    one.graph["assumptions"].append(NVSWITCH_LINK.of("nvlink.latency"))
    one.add_node("nvswitch", kind="nvswitch")
    for i in range(8):
        one.add_node(f"gpu{i}", **gpu.node(i), nic=f"nic{i}")
        one.add_node(f"nic{i}", kind="nic")
        cable(one, f"gpu{i}", "nvswitch", Link("nvlink", gpu.link_total, NVSWITCH_LINK.latency))
    return one
