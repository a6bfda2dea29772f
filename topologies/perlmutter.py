"""Perlmutter, NERSC: machines of four A100 without an NVSwitch, and four Slingshot NICs."""

from itertools import combinations

import networkx as nx

from topologies.cluster import cluster, machine
from topologies.fabrics import Fabric
from topologies.fabrics.dragonfly import dragonfly
from topologies.hardware import GPUS
from topologies.links import GPUDIRECT_LINK, NVLINK_DIRECT, PCIE4_SOURCE, Link, cable
from topologies.nics import SLINGSHOT_11

LINKS_PER_PAIR = 4
_SOURCE = "https://docs.nersc.gov/systems/perlmutter/architecture"


def perlmutter(nodes: int = 1, fabric: Fabric = dragonfly) -> nx.DiGraph:
    """Return Perlmutter GPU nodes: four A100-40, four NVLink 3 links between each two of them.

    The nodes are joined by the machine's dragonfly, 128 nodes a group, unless another fabric is given; it has as many
    groups as the nodes need. The CPU, through which PCIe joins GPUs and NICs, is left out.

    Args:
        nodes: number of nodes, at least 1; ranks 4n .. 4n+3 live on node n.
        fabric: joins the NICs of the nodes.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://docs.nersc.gov/systems/perlmutter/architecture: four A100 and four Slingshot-11 NICs of
        25 GB/s a node, PCIe 4;
        https://github.com/EESSI/software-layer/pull/716: 93 of 100 GB/s measured between two GPUs.
    """
    gpu = GPUS["A100-SXM4-40"]
    one = machine("perlmutter", gpu)
    one.graph["network"] = SLINGSHOT_11
    one.graph["sources"] |= {"nvlink.bandwidth": _SOURCE, "pcie.bandwidth": PCIE4_SOURCE}
    one.graph["assumptions"] += [
        NVLINK_DIRECT.of("nvlink.latency"),
        GPUDIRECT_LINK.of("pcie.latency"),
        "nic: GPU i uses NIC i; the CPU between them is taken to slow nothing",
    ]
    for i in range(4):
        one.add_node(f"gpu{i}", **gpu.node(i), nic=f"nic{i}")
        one.add_node(f"nic{i}", kind="nic")
        cable(one, f"gpu{i}", f"nic{i}", Link("pcie", gpu.pcie_bandwidth, GPUDIRECT_LINK.latency))
    for a, b in combinations(range(4), 2):
        cable(one, f"gpu{a}", f"gpu{b}", Link("nvlink", LINKS_PER_PAIR * gpu.link_bandwidth, NVLINK_DIRECT.latency))
    return cluster(one, nodes, fabric)
