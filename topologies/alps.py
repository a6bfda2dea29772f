"""Alps, CSCS: machines of four GH200, each a GPU and a CPU on one module, and four Slingshot NICs."""

from itertools import combinations

import networkx as nx

from topologies.cluster import cluster, machine
from topologies.fabrics import Fabric
from topologies.fabrics.dragonfly import dragonfly
from topologies.hardware import GPUS
from topologies.links import GPUDIRECT_LINK, NVLINK_DIRECT, NVLINK_SOURCE, PCIE5_SOURCE, Link, cable
from topologies.nics import SLINGSHOT_11
from topologies.units import GB

LINKS_PER_PAIR = 6
CHIP_TO_CHIP = Link("nvlink", 450 * GB, 0.0)  # NVLink-C2C, from a GPU to the CPU of its module


def alps_gh200(nodes: int = 1, fabric: Fabric = dragonfly) -> nx.DiGraph:
    """Return Alps nodes: four GH200, six NVLink 4 links between each two GPUs, a CPU and a NIC for each.

    A GPU reaches its NIC through the CPU of its module. What joins the CPUs is left out: it carries nothing between
    GPUs. The nodes are joined by a dragonfly, with the numbers of Perlmutter's, unless another fabric is given.

    Args:
        nodes: number of nodes, at least 1; ranks 4n .. 4n+3 live on node n.
        fabric: joins the NICs of the nodes.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://github.com/eth-cscs/cscs-docs (docs/alps/hardware.md): four modules and four NICs of 25 GB/s a node;
        https://github.com/stas00/ml-engineering (network/README.md @744d01e): NVLink-C2C of 450 GB/s a direction.
    """
    gpu = GPUS["GH200-96"]
    one = machine("alps_gh200", gpu)
    one.graph["network"] = SLINGSHOT_11
    one.graph["sources"] |= {"nvlink.bandwidth": NVLINK_SOURCE, "pcie.bandwidth": PCIE5_SOURCE}
    one.graph["assumptions"] += [
        "nvlink: six links, 150 GB/s each way, between each two GPUs, recalled",
        NVLINK_DIRECT.of("nvlink.latency"),
        "nvlink.latency of a CPU: 0 us a link; it is counted in that between CPU and NIC",
        GPUDIRECT_LINK.of("pcie.latency"),
    ]
    for i in range(4):
        one.add_node(f"gpu{i}", **gpu.node(i), nic=f"nic{i}")
        one.add_node(f"cpu{i}", kind="cpu")
        one.add_node(f"nic{i}", kind="nic")
        cable(one, f"gpu{i}", f"cpu{i}", CHIP_TO_CHIP)
        cable(one, f"cpu{i}", f"nic{i}", Link("pcie", gpu.pcie_bandwidth, GPUDIRECT_LINK.latency))
    for a, b in combinations(range(4), 2):
        cable(one, f"gpu{a}", f"gpu{b}", Link("nvlink", LINKS_PER_PAIR * gpu.link_bandwidth, NVLINK_DIRECT.latency))
    return cluster(one, nodes, fabric)
