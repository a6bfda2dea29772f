"""NVIDIA GB200 NVL72: a rack that is one NVLink domain."""

import networkx as nx

from topologies.cluster import cluster, machine
from topologies.fabrics import Fabric
from topologies.fabrics.rail import rail
from topologies.hardware import GPUS
from topologies.links import GPUDIRECT_LINK, NVLINK_SOURCE, NVSWITCH_LINK, PCIE5_SOURCE, Link, cable
from topologies.nics import NDR

TRAYS = 18  # of a rack
TRAY_GPUS = 4  # of a tray, and as many NICs


def gb200_nvl72(racks: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
    """Return GB200 NVL72 racks: 18 trays of four GPUs, all 72 on one flat NVLink domain.

    The 18 NVSwitch chips are one node: each GPU has one link of 50 GB/s to each chip. Racks are joined by
    the NICs of their trays, four each. The Grace CPUs are left out.

    Args:
        racks: number of racks, at least 1; ranks 72r .. 72r+71 live in rack r, four a tray.
        fabric: joins the NICs of all trays.
    Raises:
        ValueError: racks is less than 1, or the fabric has no room.
    References:
        https://docs.nvidia.com/base-command-manager/product-manuals/nvidia-mission-control/nvlink: 18 trays
        of four GPUs, one link from each GPU to each switch chip;
        https://github.com/stas00/ml-engineering (network/README.md @744d01e): NVLink 5, 50 GB/s a direction;
        https://github.com/coreweave/nccl-tests (README.md): four 400 Gb/s ConnectX-7 NICs a tray.
    """
    gpu = GPUS["GB200-186"]
    rack = machine("gb200_nvl72", gpu)
    rack.graph["network"] = NDR
    rack.graph["sources"] |= {"nvlink.bandwidth": NVLINK_SOURCE, "pcie.bandwidth": PCIE5_SOURCE}
    rack.graph["assumptions"] += [
        NVSWITCH_LINK.of("nvlink.latency"),
        GPUDIRECT_LINK.of("pcie.latency"),
        "nic: GPU i of a tray uses NIC i of it, at the PCIe 5 rate of the NIC",
    ]
    rack.add_node("nvswitch", kind="nvswitch")
    for rank in range(TRAYS * TRAY_GPUS):
        tray, i = f"tray{rank // TRAY_GPUS}", rank % TRAY_GPUS
        gpu_name, nic = f"{tray}/gpu{i}", f"{tray}/nic{i}"
        rack.add_node(gpu_name, **gpu.node(rank), host=tray, nic=nic)
        rack.add_node(nic, kind="nic", host=tray)
        cable(rack, gpu_name, "nvswitch", Link("nvlink", gpu.link_total, NVSWITCH_LINK.latency))
        cable(rack, gpu_name, nic, Link("pcie", gpu.pcie_bandwidth, GPUDIRECT_LINK.latency))
    return cluster(rack, racks, fabric, "rack")
