"""Boxes of eight PCIe cards on two sockets, without NVLink, with and without peer-to-peer access.

Without it, what GPUs send each other is staged in host memory. A PCIe switch is then two nodes, one for each direction:
from `up` to `down` there is no way but through the CPU.

    gpu0 -> pcie0/up -> cpu0 -> pcie0/down -> gpu1
"""

from typing import NamedTuple

import networkx as nx

from topologies.cluster import cluster, machine
from topologies.fabrics import Fabric
from topologies.fabrics.rail import rail
from topologies.hardware import GPUS, Gpu
from topologies.links import (
    HOST_LINK,
    NCCL_SOURCE,
    PCIE4_SOURCE,
    PCIE_ROOT_LINK,
    PCIE_SWITCH_LINK,
    SOCKET_LINK,
    Link,
    cable,
)
from topologies.nics import ROCE_100
from topologies.units import GB

SOCKETS, SOCKET_GPUS = 2, 4


class Sockets(NamedTuple):
    """What joins the two CPUs: bytes/s in one direction, and what they are."""

    bandwidth: float
    model: str


EPYC = Sockets(16 * GB, "AMD EPYC")
SAPPHIRE_RAPIDS = Sockets(22 * GB, "Intel Xeon, Sapphire Rapids")


def pcie_box(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return boxes of eight RTX 4090, four on a PCIe switch of each socket, without peer-to-peer access.

    The four GPUs of a switch share its link to the CPU, through which all that they send has to go.

    Args:
        nodes: number of boxes, at least 1; ranks 8n .. 8n+7 live in box n, four a socket.
        fabric: joins the NICs of the boxes, one a socket.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        As rtx4090_box.
    """
    gpu = GPUS["RTX4090-24"]
    one = _box("pcie_box", gpu, EPYC, peer_to_peer=False)
    one.graph["assumptions"] += [HOST_LINK.of("pcie.latency of a GPU and its switch together"), _STAGED, _NIC_AT_SOCKET]
    near, far = PCIE_SWITCH_LINK.latency, HOST_LINK.latency - PCIE_SWITCH_LINK.latency
    for s in range(SOCKETS):
        _one_way(one, f"pcie{s}", f"cpu{s}", gpu.pcie_bandwidth, far)
        for device in _devices(s):
            wait = near if device.startswith("gpu") else 0.0
            one.add_edge(device, f"pcie{s}/up", **Link("pcie", gpu.pcie_bandwidth, wait)._asdict())
            one.add_edge(f"pcie{s}/down", device, **Link("pcie", gpu.pcie_bandwidth, wait)._asdict())
    return cluster(one, nodes, fabric)


def rtx4090_box(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return boxes of eight RTX 4090, four on each socket, without peer-to-peer access.

    Each GPU has PCIe 4 x16 to its CPU, where all that it sends another is staged.

    Args:
        nodes: number of boxes, at least 1; ranks 8n .. 8n+7 live in box n, four a socket.
        fabric: joins the NICs of the boxes, one a socket.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://github.com/tinygrad/open-gpu-kernel-modules/issues/17: peer-to-peer needs a patched driver;
        https://github.com/NVIDIA/nccl @5067397 (v2.30.7) src/graph/topo.h: between two AMD sockets 16 GB/s.
    """
    gpu = GPUS["RTX4090-24"]
    one = _box("rtx4090_box", gpu, EPYC, peer_to_peer=False)
    one.graph["assumptions"] += [HOST_LINK.of("pcie.latency"), _STAGED, _NIC_AT_SOCKET]
    for s in range(SOCKETS):
        for device in _devices(s):
            wait = HOST_LINK.latency if device.startswith("gpu") else 0.0
            cable(one, device, f"cpu{s}", Link("pcie", gpu.pcie_bandwidth, wait))
    return cluster(one, nodes, fabric)


def l40s_box(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return boxes of eight L40S, four and a NIC on a PCIe switch of each socket, with peer-to-peer access.

    GPUs of one switch reach each other through it, others through the CPUs.

    Args:
        nodes: number of boxes, at least 1; ranks 8n .. 8n+7 live in box n, four a socket.
        fabric: joins the NICs of the boxes, one a socket.
    Raises:
        ValueError: nodes is less than 1, or the fabric has no room.
    References:
        https://github.com/NVIDIA/nccl @5067397 (v2.30.7) src/graph/topo.h: between two such sockets 22 GB/s. How many
        GPUs and NICs share a switch differs from maker to maker.
    """
    gpu = GPUS["L40S-48"]
    one = _box("l40s_box", gpu, SAPPHIRE_RAPIDS, peer_to_peer=True)
    one.graph["assumptions"] += [
        "pcie: one switch of four GPUs and one NIC a socket; makers differ",
        PCIE_SWITCH_LINK.of("pcie.latency of a GPU"),
        PCIE_ROOT_LINK.of("pcie.latency of a CPU"),
        _NIC_AT_SOCKET,
    ]
    for s in range(SOCKETS):
        one.add_node(f"pcie{s}", kind="pcie")
        cable(one, f"pcie{s}", f"cpu{s}", Link("pcie", gpu.pcie_bandwidth, PCIE_ROOT_LINK.latency))
        for device in _devices(s):
            wait = PCIE_SWITCH_LINK.latency if device.startswith("gpu") else 0.0
            cable(one, device, f"pcie{s}", Link("pcie", gpu.pcie_bandwidth, wait))
    return cluster(one, nodes, fabric)


_STAGED = "pcie: what GPUs send is staged in host memory, which is taken to slow nothing besides"
_NIC_AT_SOCKET = "nic: one a socket, taken for want of a NIC that all such boxes have; its PCIe link adds 0 us"


def _box(name: str, gpu: Gpu, sockets: Sockets, peer_to_peer: bool) -> nx.DiGraph:
    """Return a box of GPUs, NICs and two joined CPUs, to which nothing is attached yet."""
    one = machine(name, gpu)
    access = {} if peer_to_peer else {"peer_to_peer": False}
    one.graph["network"] = ROCE_100
    one.graph["sources"] |= {
        "pcie.bandwidth": PCIE4_SOURCE,
        "socket.bandwidth": f"{NCCL_SOURCE} ({sockets.model})",
    }
    one.graph["assumptions"] += [f"socket: the CPUs are taken to be {sockets.model}", SOCKET_LINK.of("socket.latency")]
    for i in range(SOCKETS * SOCKET_GPUS):
        one.add_node(f"gpu{i}", **gpu.node(i), nic=f"nic{i // SOCKET_GPUS}", **access)
    for s in range(SOCKETS):
        one.add_node(f"cpu{s}", kind="cpu")
        one.add_node(f"nic{s}", kind="nic")
    cable(one, "cpu0", "cpu1", Link("socket", sockets.bandwidth, SOCKET_LINK.latency))
    return one


def _devices(socket: int) -> list[str]:
    """Name the GPUs and the NIC of a socket."""
    return [*(f"gpu{SOCKET_GPUS * socket + i}" for i in range(SOCKET_GPUS)), f"nic{socket}"]


def _one_way(one: nx.DiGraph, switch: str, cpu: str, bandwidth: float, latency: float) -> None:
    """Add a PCIe switch whose devices have no way to each other but through the CPU."""
    one.add_node(f"{switch}/up", kind="pcie")
    one.add_node(f"{switch}/down", kind="pcie")
    one.add_edge(f"{switch}/up", cpu, **Link("pcie", bandwidth, latency)._asdict())
    one.add_edge(cpu, f"{switch}/down", **Link("pcie", bandwidth, latency)._asdict())
