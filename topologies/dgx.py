"""NVIDIA machines of eight GPUs on NVSwitches, joined by a fabric: non-blocking rails unless another is given."""

import networkx as nx

from topologies.cluster import cluster
from topologies.fabrics import Fabric
from topologies.fabrics.rail import rail
from topologies.hardware import GPUS
from topologies.hgx import own_nics, paired
from topologies.nics import HDR, NDR


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
    return cluster(paired("dgx_a100", GPUS["A100-SXM4-80"], HDR), nodes, fabric)


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
    return cluster(own_nics("dgx_h100", GPUS["H100-SXM5-80"], NDR), nodes, fabric)


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
    return cluster(own_nics("hgx_h200", GPUS["H200-SXM-141"], NDR), nodes, fabric)


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
    return cluster(own_nics("hgx_h800", GPUS["H800-SXM5-80"], NDR), nodes, fabric)


def hgx_b200(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return HGX B200 machines: eight B200 on NVLink 5, one NIC per GPU.

    Args:
        nodes: number of machines, at least 1; ranks 8n .. 8n+7 live on machine n.
        fabric: joins the NICs of the machines.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://github.com/stas00/ml-engineering (network/README.md @744d01e): 18 NVLink 5 links of 50 GB/s a
        GPU and direction, a NIC of 50 GB/s per GPU.
    """
    return cluster(own_nics("hgx_b200", GPUS["B200-SXM-180"], NDR), nodes, fabric)
