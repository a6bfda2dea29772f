"""NVIDIA machines of eight GPUs on NVSwitches, joined by a fabric: non-blocking rails unless another is given."""

from collections.abc import Iterator

import networkx as nx

from topologies.fabrics import Fabric, join
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
from topologies.nics import HDR, NDR
from topologies.units import in_range


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
    graph = _machines("dgx_a100", nodes, gpu)
    graph.graph["sources"]["pcie.bandwidth"] = PCIE4_SOURCE
    graph.graph["assumptions"] += [
        PCIE_SWITCH_LINK.of("pcie.latency of a GPU"),
        "pcie.latency of a NIC: 0 us a link; it is counted in the 1.6 us between two NICs",
    ]
    for host, i in _slots(nodes):
        pcie, nic = f"{host}/pcie{i // 2}", f"{host}/nic{i}"
        graph.add_node(pcie, kind="pcie", host=host)
        cable(graph, f"{host}/gpu{i}", pcie, Link("pcie", gpu.pcie_bandwidth, PCIE_SWITCH_LINK.latency))
        cable(graph, pcie, nic, Link("pcie", gpu.pcie_bandwidth, 0.0))
    join(graph, _nics(nodes), HDR, fabric)
    return graph


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
    graph = _machines(name, nodes, gpu)
    graph.graph["sources"]["pcie.bandwidth"] = PCIE5_SOURCE
    graph.graph["assumptions"].append(GPUDIRECT_LINK.of("pcie.latency"))
    for host, i in _slots(nodes):
        link = Link("pcie", gpu.pcie_bandwidth, GPUDIRECT_LINK.latency)
        cable(graph, f"{host}/gpu{i}", f"{host}/nic{i}", link)
    join(graph, _nics(nodes), NDR, fabric)
    return graph


def _machines(name: str, nodes: int, gpu: Gpu) -> nx.DiGraph:
    """Return machines of eight GPUs around an NVSwitch, and eight NICs not yet attached."""
    in_range(nodes, "nodes")
    nvlink = Link("nvlink", gpu.nvlink_total, NVSWITCH_LINK.latency)
    source = gpu.source if "nvlinks" in gpu.recalled else NVLINK_SOURCE
    graph = nx.DiGraph(
        name=f"{name}({nodes})",
        sources=gpu.sources() | {"nvlink.bandwidth": source},
        assumptions=[*gpu.assumptions(), NVSWITCH_LINK.of("nvlink.latency")],
    )
    for rank, (host, i) in enumerate(_slots(nodes)):
        graph.add_node(f"{host}/gpu{i}", **gpu.node(rank, host), nic=f"{host}/nic{i}")
        graph.add_node(f"{host}/nic{i}", kind="nic", host=host)
        graph.add_node(f"{host}/nvswitch", kind="nvswitch", host=host)
        cable(graph, f"{host}/gpu{i}", f"{host}/nvswitch", nvlink)
    return graph


def _slots(nodes: int) -> Iterator[tuple[str, int]]:
    """Name the host and number of every GPU, and of the NIC that goes with it, in rank order."""
    return ((f"node{n}", i) for n in range(nodes) for i in range(8))


def _nics(nodes: int) -> list[list[str]]:
    """Name the NICs of every machine."""
    return [[f"node{n}/nic{i}" for i in range(8)] for n in range(nodes)]
