"""Perlmutter, NERSC: machines of four A100 without an NVSwitch, and four Slingshot NICs."""

from itertools import combinations

import networkx as nx

from topologies.fabrics import Fabric, join, label
from topologies.fabrics.rail import rail
from topologies.hardware import GPUS
from topologies.links import GPUDIRECT_LINK, NVLINK_DIRECT, PCIE4_SOURCE, Link, cable
from topologies.nics import SLINGSHOT_11
from topologies.units import in_range

LINKS_PER_PAIR = 4
_SOURCE = "https://docs.nersc.gov/systems/perlmutter/architecture"


def perlmutter(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return Perlmutter GPU nodes: four A100-40, four NVLink 3 links between each two of them.

    The nodes are joined by non-blocking rails unless another fabric is given. The real machine's dragonfly, in
    which groups share fewer links, comes later: on rails traffic between far nodes is too fast. So is the CPU,
    through which PCIe joins GPUs and NICs and which is left out.

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
    in_range(nodes, "nodes")
    gpu = GPUS["A100-SXM4-40"]
    nvlink = Link("nvlink", LINKS_PER_PAIR * gpu.nvlink_bandwidth, NVLINK_DIRECT.latency)
    pcie = Link("pcie", gpu.pcie_bandwidth, GPUDIRECT_LINK.latency)
    graph = nx.DiGraph(
        name=f"perlmutter({nodes})",
        sources=gpu.sources() | {"nvlink.bandwidth": _SOURCE, "pcie.bandwidth": PCIE4_SOURCE},
        assumptions=[
            *gpu.assumptions(),
            NVLINK_DIRECT.of("nvlink.latency"),
            GPUDIRECT_LINK.of("pcie.latency"),
            "nic: GPU i uses NIC i; the CPU between them is taken to slow nothing",
            f"fabric: {label(fabric)} in place of the real dragonfly",
        ],
    )
    for n in range(nodes):
        names = [f"node{n}/gpu{i}" for i in range(4)]
        for i, name in enumerate(names):
            nic = f"node{n}/nic{i}"
            graph.add_node(name, **gpu.node(4 * n + i, f"node{n}"), nic=nic)
            graph.add_node(nic, kind="nic", host=f"node{n}")
            cable(graph, name, nic, pcie)
        for a, b in combinations(names, 2):
            cable(graph, a, b, nvlink)
    join(graph, [[f"node{n}/nic{i}" for i in range(4)] for n in range(nodes)], SLINGSHOT_11, fabric)
    return graph
