"""Machines that clouds rent: HGX boards with the NICs of Azure and of AWS."""

import networkx as nx

from topologies.cluster import cluster
from topologies.fabrics import Fabric
from topologies.fabrics.rail import rail
from topologies.hardware import GPUS
from topologies.hgx import own_nics, paired
from topologies.nics import EFA_P4D, EFA_P5, HDR, NDR


def azure_nd_a100_v4(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return Azure ND A100 v4 machines: a DGX A100 with GPUs of 40 GB.

    Args:
        nodes: number of machines, at least 1; ranks 8n .. 8n+7 live on machine n.
        fabric: joins the NICs of the machines.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://learn.microsoft.com/azure/virtual-machines/nda100-v4-series: eight HDR NICs of 200 Gb/s, one per GPU.
    """
    return cluster(paired("azure_nd_a100_v4", GPUS["A100-SXM4-40"], HDR), nodes, fabric)


def azure_nd_h100_v5(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return Azure ND H100 v5 machines: a DGX H100.

    Args:
        nodes: number of machines, at least 1; ranks 8n .. 8n+7 live on machine n.
        fabric: joins the NICs of the machines.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://glennklockwood.com/garden/nodes/azure-nd-h100-v5: eight ConnectX-7 NDR NICs, one per GPU.
    """
    return cluster(own_nics("azure_nd_h100_v5", GPUS["H100-SXM5-80"], NDR), nodes, fabric)


def aws_p4d(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return AWS p4d.24xlarge machines: eight A100-40 on NVSwitch, four EFA NICs of 100 Gb/s, one for two GPUs.

    A p4de has GPUs of 80 GB.

    Args:
        nodes: number of machines, at least 1; ranks 8n .. 8n+7 live on machine n.
        fabric: joins the NICs of the machines.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://github.com/stas00/ml-engineering (network/README.md @744d01e): four NICs of 100 Gb/s;
        https://github.com/aws/aws-ofi-nccl (topology/p4d-24xl-topo.xml): each shares a PCIe switch with two GPUs.
    """
    return cluster(paired("aws_p4d", GPUS["A100-SXM4-40"], EFA_P4D, nics=4), nodes, fabric)


def aws_p5(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return AWS p5.48xlarge machines: eight H100 on NVSwitch, 32 EFA NICs of 100 Gb/s, four for each GPU.

    The four NICs of a GPU are one node of 400 Gb/s, over which the plugin for EFA spreads what a GPU sends.

    Args:
        nodes: number of machines, at least 1; ranks 8n .. 8n+7 live on machine n.
        fabric: joins the NICs of the machines.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://github.com/stas00/ml-engineering (network/README.md @744d01e): 32 NICs of 100 Gb/s.
    """
    one = own_nics("aws_p5", GPUS["H100-SXM5-80"], EFA_P5)
    one.graph["assumptions"].append("nic: one stands for the four NICs of a GPU, each of 100 Gb/s, used alike")
    return cluster(one, nodes, fabric)
