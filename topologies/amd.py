"""AMD machines, whose GPUs are cabled to each other by Infinity Fabric (xGMI): MI300X, and Frontier's MI250X."""

from itertools import combinations

import networkx as nx

from topologies.cluster import cluster, machine
from topologies.fabrics import Fabric
from topologies.fabrics.dragonfly import dragonfly
from topologies.fabrics.rail import rail
from topologies.hardware import GPUS
from topologies.links import GPUDIRECT_LINK, PCIE4_SOURCE, PCIE5_SOURCE, XGMI_DIRECT, Link, cable
from topologies.nics import ROCE_400, SLINGSHOT_11

FRONTIER_LINKS = {  # between two GCDs; the rest of each GCD's eight go to the CPU or the NIC
    **{(0, 1): 4, (2, 3): 4, (4, 5): 4, (6, 7): 4},
    **{(0, 6): 2, (2, 4): 2, (0, 2): 1, (1, 3): 1, (1, 5): 1, (3, 7): 1, (4, 6): 1, (5, 7): 1},
}


def mi300x(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return machines of eight MI300X: one xGMI link between each two of them, one NIC per GPU.

    Args:
        nodes: number of machines, at least 1; ranks 8n .. 8n+7 live on machine n.
        fabric: joins the NICs of the machines.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://github.com/stas00/ml-engineering (network/README.md @744d01e): seven links of 64 GB/s a GPU and
        direction (48 are reached), eight NICs of 400 Gb/s;
        https://github.com/ROCm/rccl (tools/topo_expl/models/topo_8p_940.xml): a full mesh.
    """
    gpu = GPUS["MI300X-192"]
    one = machine("mi300x", gpu)
    one.graph["network"] = ROCE_400
    one.graph["sources"] |= {
        "xgmi.bandwidth": "https://github.com/stas00/ml-engineering (network/README.md @744d01e)",
        "pcie.bandwidth": PCIE5_SOURCE,
    }
    one.graph["assumptions"] += [XGMI_DIRECT.of("xgmi.latency"), GPUDIRECT_LINK.of("pcie.latency")]
    for i in range(8):
        one.add_node(f"gpu{i}", **gpu.node(i), nic=f"nic{i}")
        one.add_node(f"nic{i}", kind="nic")
        cable(one, f"gpu{i}", f"nic{i}", Link("pcie", gpu.pcie_bandwidth, GPUDIRECT_LINK.latency))
    for a, b in combinations(range(8), 2):
        cable(one, f"gpu{a}", f"gpu{b}", Link("xgmi", gpu.link_bandwidth, XGMI_DIRECT.latency))
    return cluster(one, nodes, fabric)


def frontier(nodes: int = 1, fabric: Fabric = dragonfly) -> nx.DiGraph:
    """Return Frontier nodes: four MI250X of two GPUs (GCDs) each, and four Slingshot NICs on the odd GCDs.

    A GCD forwards for others: to a far one over the fewest links, and to the NIC of its card through its sibling. The
    CPU is left out: neither these paths nor those to a NIC lead through it. From GCD 0 to 1 .. 7 links carry so 150,
    four times 37.5 and twice 75 GB/s; measured between those of four MI250 are 142, 39.0, 36.9, 36.9, 35.0, 76.3, 68.8.
    The nodes are joined by a dragonfly, 128 nodes a group, unless another fabric is given.

    Args:
        nodes: number of nodes, at least 1; ranks 8n .. 8n+7 are the GCDs of node n.
        fabric: joins the NICs of the nodes.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://docs.olcf.ornl.gov/systems/frontier_user_guide.html: 50 GB/s a link and direction, four links between
        the GCDs of a card, a NIC of 25 GB/s on each card;
        https://github.com/ROCm/rccl (tools/topo_expl/models/topo_8p_90a_1.xml): which GCDs are joined;
        https://github.com/amd/amd-lab-notes (gpu-aware-mpi): osu_bw between two GCDs, 16 MiB.
    """
    gpu = GPUS["MI250X-GCD-64"]
    one = machine("frontier", gpu)
    one.graph["network"] = SLINGSHOT_11
    one.graph["sources"] |= {"xgmi.bandwidth": gpu.source, "pcie.bandwidth": PCIE4_SOURCE}
    one.graph["assumptions"] += [
        "xgmi: one or two links between GCDs of two cards, recalled; GCDs forward for others",
        "nic: on the odd GCD of a card, recalled",
        XGMI_DIRECT.of("xgmi.latency"),
        GPUDIRECT_LINK.of("pcie.latency"),
    ]
    for i in range(8):
        one.add_node(f"gpu{i}", **gpu.node(i), nic=f"nic{i // 2}")
    for k in range(4):
        one.add_node(f"nic{k}", kind="nic")
        cable(one, f"gpu{2 * k + 1}", f"nic{k}", Link("pcie", gpu.pcie_bandwidth, GPUDIRECT_LINK.latency))
    for (a, b), links in FRONTIER_LINKS.items():
        cable(one, f"gpu{a}", f"gpu{b}", Link("xgmi", links * gpu.link_bandwidth, XGMI_DIRECT.latency))
    return cluster(one, nodes, fabric)
