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
NVSWITCH_LINK = Estimate(0.5 * us, "half of an estimated 1.0 us between two GPUs of one NVSwitch")
PCIE_SWITCH_LINK = Estimate(0.75 * us, "half of an estimated 1.5 us between two devices of one PCIe switch")
GPUDIRECT_LINK = Estimate(0.5 * us, "half of an estimated 1.0 us by which GPU memory at both ends delays a NIC")
HOST_PROXY = Estimate(1.0 * us, "half of an estimated 2.0 us by which a proxy in host memory at both ends delays a NIC")
NIC_LINK = Estimate(0.8 * us, "half of an estimated 1.6 us between two NICs of one switch")
IB_SWITCH_LINK = Estimate(0.25 * us, "estimate of one more InfiniBand switch on the way")
SLINGSHOT_SWITCH_LINK = Estimate(0.35 * us, "estimate of one more Slingshot switch on the way")

NVLINK_SOURCE = "https://github.com/stas00/ml-engineering (network/README.md @744d01e)"
PCIE4_SOURCE = "https://github.com/NVIDIA/nccl-tests/issues/100 (topology dump)"
PCIE5_SOURCE = "https://github.com/NVIDIA/nccl-tests/issues/256 (topology dump)"


def cable(graph: "nx.DiGraph", a: str, b: str, link: Link) -> None:
    """Join a and b both ways; each direction has the full bandwidth."""
    cables(graph, ((a, b),), link)


def cables(graph: "nx.DiGraph", ends: Iterable[tuple[str, str]], link: Link) -> None:
    """Lay a cable of one class between each two ends; faster than one by one."""
    graph.add_edges_from((way for a, b in ends for way in ((a, b), (b, a))), **link._asdict())
