"""NVIDIA's machines of V100: the DGX-1, a cube mesh without NVSwitch, and the DGX-2, two boards of NVSwitches."""

import networkx as nx

from topologies.cluster import cluster, machine
from topologies.fabrics import Fabric
from topologies.fabrics.rail import rail
from topologies.hardware import GPUS
from topologies.links import (
    NCCL_SOURCE,
    NVLINK_DIRECT,
    NVLINK_SOURCE,
    NVSWITCH_LINK,
    NVSWITCH_TRUNK,
    PCIE3_SOURCE,
    PCIE_ROOT_LINK,
    PCIE_SWITCH_LINK,
    SOCKET_LINK,
    Link,
    cable,
)
from topologies.nics import EDR
from topologies.units import GB

CUBE_MESH = {  # NVLinks between two GPUs of a DGX-1; each GPU has six
    **{(0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 2},
    **{(4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2},
    **{(0, 4): 2, (1, 5): 2, (2, 6): 1, (3, 7): 1},
}
BROADWELL = Link("socket", 6 * GB, SOCKET_LINK.latency)  # QPI, as NCCL takes it
TRUNK_LINKS = 6 * 8  # of a DGX-2: eight ports of each of the six NVSwitches of a board
_NIC_PCIE = "pcie.latency of a NIC: 0 us a link; it is counted in the latency between two NICs"


def dgx1_v100(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return DGX-1 machines: eight V100 in a hybrid cube mesh, four PCIe switches of two GPUs and one NIC, two CPUs.

    Two GPUs without an NVLink between them meet over PCIe and the CPUs.

    Args:
        nodes: number of machines, at least 1; ranks 8n .. 8n+7 live on machine n.
        fabric: joins the NICs of the machines.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://github.com/openucx/ucx/issues/6327 and https://github.com/NVIDIA/nccl/issues/671: the NVLinks of GPUs
        0 and 1; those of the others are recalled, six for each GPU.
    """
    gpu = GPUS["V100-SXM2-32"]
    one = machine("dgx1_v100", gpu)
    one.graph["network"] = EDR
    one.graph["sources"] |= {
        "nvlink.bandwidth": NVLINK_SOURCE,
        "pcie.bandwidth": PCIE3_SOURCE,
        "socket.bandwidth": f"{NCCL_SOURCE} (QPI of Broadwell)",
    }
    one.graph["assumptions"] += [
        "nvlink: who has links to whom is recalled but for GPUs 0 and 1",
        "nvlink: no GPU forwards for another; without an NVLink of their own two GPUs use PCIe and the CPUs",
        "pcie: four switches of two GPUs and one EDR NIC, two of them on each CPU, recalled",
        NVLINK_DIRECT.of("nvlink.latency"),
        PCIE_SWITCH_LINK.of("pcie.latency of a GPU"),
        PCIE_ROOT_LINK.of("pcie.latency of a CPU"),
        _NIC_PCIE,
        SOCKET_LINK.of("socket.latency"),
    ]
    for i in range(8):
        one.add_node(f"gpu{i}", **gpu.node(i), nic=f"nic{i // 2}")
    for (a, b), links in CUBE_MESH.items():
        cable(one, f"gpu{a}", f"gpu{b}", Link("nvlink", links * gpu.link_bandwidth, NVLINK_DIRECT.latency))
    _pcie_pairs(one, 4, gpu.pcie_bandwidth)
    for k in range(4):
        one.add_node(f"cpu{k // 2}", kind="cpu")
        cable(one, f"pcie{k}", f"cpu{k // 2}", Link("pcie", gpu.pcie_bandwidth, PCIE_ROOT_LINK.latency))
    cable(one, "cpu0", "cpu1", BROADWELL)
    return cluster(one, nodes, fabric)


def dgx2(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return DGX-2 machines: 16 V100 on two boards of six NVSwitches, which 48 NVLinks join; eight EDR NICs.

    The six NVSwitches of a board are one node: each GPU has one link to each. The CPUs are left out.

    Args:
        nodes: number of machines, at least 1; ranks 16n .. 16n+15 live on machine n, eight a board.
        fabric: joins the NICs of the machines.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://developer.nvidia.com/blog/nvswitch-accelerates-nvidia-dgx2/: the boards, and the eight ports of each
        switch to the other board.
    """
    gpu = GPUS["V100-SXM2-32"]
    one = machine("dgx2", gpu)
    one.graph["network"] = EDR
    one.graph["sources"] |= {"nvlink.bandwidth": NVLINK_SOURCE, "pcie.bandwidth": PCIE3_SOURCE}
    one.graph["assumptions"] += [
        "gpu: the V100-SXM3 is taken to be a V100-SXM2",
        "pcie: eight switches of two GPUs and one EDR NIC, recalled",
        NVSWITCH_LINK.of("nvlink.latency"),
        NVSWITCH_TRUNK.of("nvlink.latency between the boards"),
        PCIE_SWITCH_LINK.of("pcie.latency of a GPU"),
        _NIC_PCIE,
    ]
    for i in range(16):
        one.add_node(f"gpu{i}", **gpu.node(i), nic=f"nic{i // 2}")
        one.add_node(f"nvswitch{i // 8}", kind="nvswitch")
        cable(one, f"gpu{i}", f"nvswitch{i // 8}", Link("nvlink", gpu.link_total, NVSWITCH_LINK.latency))
    trunk = Link("nvlink", TRUNK_LINKS * gpu.link_bandwidth, NVSWITCH_TRUNK.latency)
    cable(one, "nvswitch0", "nvswitch1", trunk)
    _pcie_pairs(one, 8, gpu.pcie_bandwidth)
    return cluster(one, nodes, fabric)


def _pcie_pairs(one: nx.DiGraph, switches: int, bandwidth: float) -> None:
    """Give each two GPUs a PCIe switch with a NIC."""
    for k in range(switches):
        one.add_node(f"pcie{k}", kind="pcie")
        one.add_node(f"nic{k}", kind="nic")
        cable(one, f"pcie{k}", f"nic{k}", Link("pcie", bandwidth, 0.0))
        for i in (2 * k, 2 * k + 1):
            cable(one, f"gpu{i}", f"pcie{k}", Link("pcie", bandwidth, PCIE_SWITCH_LINK.latency))
