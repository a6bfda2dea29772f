"""A machine of eight GPUs on an NVSwitch with its PCIe tree: NICs where they are said to be, ACS on or off."""

from topologies.cluster import cluster, machine
from topologies.fabrics.rail import rail
from topologies.hardware import GPUS
from topologies.links import GPUDIRECT_LINK, NVSWITCH_LINK, PCIE_SWITCH_LINK, Link, cable
from topologies.nics import HDR
from topologies.units import GB, us


def box(nodes, nics, *, gpu="A100-SXM4-80", network=HDR, acs=False, cpu_rate=None):
    """Return machines of four PCIe switches of two GPUs, two switches a socket.

    Args:
        nics: where each is attached: pcie0 .. pcie3, cpu0 or cpu1.
        acs: what comes up to a switch goes on to the CPU, whomever it is for.
        cpu_rate: bytes/s between a NIC and the CPU that it is on; as PCIe if None.
    """
    model = GPUS[gpu]
    one = machine("box", model)
    one.graph["network"] = network
    one.graph["assumptions"] += [f"{kind}.{x}: of a test" for kind in ("nvlink", "pcie", "socket") for x in RATES]
    lane = Link("pcie", model.pcie_bandwidth, PCIE_SWITCH_LINK.latency)
    one.add_node("nvswitch", kind="nvswitch")
    for s in range(2):
        one.add_node(f"cpu{s}", kind="cpu")
    cable(one, "cpu0", "cpu1", Link("socket", 20 * GB, 1 * us))
    for k in range(4):
        for end in ("/up", "/down") if acs else ("",):
            one.add_node(f"pcie{k}{end}", kind="pcie")
        both_ways(one, f"pcie{k}", f"cpu{k // 2}", lane, acs)
    for i in range(8):
        one.add_node(f"gpu{i}", **model.node(i))
        cable(one, f"gpu{i}", "nvswitch", Link("nvlink", model.link_total, NVSWITCH_LINK.latency))
        both_ways(one, f"gpu{i}", f"pcie{i // 2}", lane, acs)
    for j, place in enumerate(nics):
        one.add_node(f"nic{j}", kind="nic")
        slot = Link(
            "pcie", cpu_rate if place.startswith("cpu") and cpu_rate else lane.bandwidth, GPUDIRECT_LINK.latency
        )
        both_ways(one, f"nic{j}", place, slot, acs and place.startswith("pcie"))
    return cluster(one, nodes, rail)


RATES = ("bandwidth", "latency")


def both_ways(one, device, place, link, acs):
    """Cable a device to a place; to a one-way switch below, or of one above."""
    if not acs:
        cable(one, device, place, link)
        return
    if place.startswith("cpu"):  # the device is itself a one-way switch
        one.add_edge(f"{device}/up", place, **link._asdict())
        one.add_edge(place, f"{device}/down", **link._asdict())
    else:
        one.add_edge(device, f"{place}/up", **link._asdict())
        one.add_edge(f"{place}/down", device, **link._asdict())
