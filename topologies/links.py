"""Links: the classes of cable that topologies are made of, and the latencies assumed for them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from topologies.units import us

if TYPE_CHECKING:
    import networkx as nx

# xgmi joins AMD GPUs, ici TPUs, socket the CPUs (NUMA nodes) of a machine.
LINK_KINDS = ("nvlink", "xgmi", "ici", "pcie", "socket", "nic", "fabric", "link")
NODE_KINDS = ("gpu", "nvswitch", "pcie", "cpu", "nic", "switch")


class Link(NamedTuple):
    """One class of link: its kind, bytes/s in one direction, seconds, and who copies.

    An offloaded link is driven by a copy engine or a NIC; one that is not costs the GPUs compute time.
    """

    kind: str
    bandwidth: float
    latency: float
    offloaded: bool = True


class Estimate(NamedTuple):
    """A latency of one link in seconds, and the reasoning that stands in for a source."""

    latency: float
    reason: str

    def of(self, fact: str) -> str:
        """Return the assumption as topologies list it."""
        return f"{fact}: {self.latency / us:.2f} us a link; {self.reason}"


# No published table splits a path's latency by link. These are engineering estimates of whole paths,
# between NCCL's low-latency constants for a hop (0.6 NVLink, 1.0 PCIe, 2.7 network) and end-to-end
# measurements that include a kernel, divided over the links of the path.
NVLINK_DIRECT = Estimate(0.7 * us, "estimate of a GPU's write to its NVLink peer")
XGMI_DIRECT = Estimate(0.7 * us, "taken to be that of an NVLink; RCCL's constants for a hop are near NCCL's")
NVSWITCH_LINK = Estimate(0.5 * us, "half of an estimated 1.0 us between two GPUs of one NVSwitch")
NVSWITCH_TRUNK = Estimate(0.2 * us, "between 0.1 and 0.25 us recalled for one more NVSwitch on the way")
PCIE_SWITCH_LINK = Estimate(0.75 * us, "half of an estimated 1.5 us between two devices of one PCIe switch")
PCIE_ROOT_LINK = Estimate(
    0.35 * us, "half of the 0.7 us by which a CPU between two PCIe switches is estimated to delay"
)
PCIE_CPU_LINK = Estimate(1.1 * us, "half of an estimated 2.2 us between two devices of one CPU")
SOCKET_LINK = Estimate(0.6 * us, "estimate of one more CPU socket on the way")
HOST_LINK = Estimate(
    2.1 * us, "half of an estimated 2.2 us between two devices of one CPU and 2.0 us more of host copies"
)
GPUDIRECT_LINK = Estimate(0.5 * us, "half of an estimated 1.0 us by which GPU memory at both ends delays a NIC")
HOST_PROXY = Estimate(1.0 * us, "half of an estimated 2.0 us by which a proxy in host memory at both ends delays a NIC")
NIC_LINK = Estimate(0.8 * us, "half of an estimated 1.6 us between two NICs of one switch")
IB_SWITCH_LINK = Estimate(0.25 * us, "estimate of one more InfiniBand switch on the way")
SLINGSHOT_SWITCH_LINK = Estimate(0.35 * us, "estimate of one more Slingshot switch on the way")
ICI_LINK = Estimate(
    1.0 * us,
    "as ASTRA-sim takes a TPU v3's (https://github.com/astra-sim/astra-sim inputs/network/tpu_v3_32_2dtorus.yml)",
)

NCCL_SOURCE = "https://github.com/NVIDIA/nccl @5067397 (v2.30.7) src/graph/topo.h"
NVLINK_SOURCE = "https://github.com/stas00/ml-engineering (network/README.md @744d01e)"
PCIE3_SOURCE = "https://github.com/NVIDIA/nccl @5067397 (v2.30.7) src/graph/topo.h (x16; its model takes 12 of 15.75)"
PCIE4_SOURCE = "https://github.com/NVIDIA/nccl-tests/issues/100 (topology dump)"
PCIE5_SOURCE = "https://github.com/NVIDIA/nccl-tests/issues/256 (topology dump)"


def cable(graph: "nx.DiGraph", a: str, b: str, link: Link) -> None:
    """Join a and b both ways; each direction has the full bandwidth."""
    cables(graph, ((a, b),), link)


def cables(graph: "nx.DiGraph", ends: Iterable[tuple[str, str]], link: Link) -> None:
    """Lay a cable of one class between each two ends; faster than one by one."""
    graph.add_edges_from((way for a, b in ends for way in ((a, b), (b, a))), **link._asdict())
