"""NICs and the switches they are cabled to: makes of network, with the numbers that fabrics are built of."""

from typing import TYPE_CHECKING, NamedTuple

from topologies.links import IB_SWITCH_LINK, NIC_LINK, SLINGSHOT_SWITCH_LINK, Estimate, Link
from topologies.units import Gbit, us

if TYPE_CHECKING:
    import networkx as nx


class Network(NamedTuple):
    """One make of network: bytes/s of a NIC in one direction with its source, and latencies of its links.

    A source that is no address is the reason for an assumption.
    """

    name: str
    bandwidth: float
    source: str
    nic: Estimate
    switch: Estimate

    def at(self, gbit: float) -> "Network":
        """Return the same network with NICs of so many Gbit/s, as somebody asks for."""
        return self._replace(bandwidth=gbit * Gbit, source=f"as asked for, {gbit:g} Gbit/s in place of {self.name}'s")

    def port(self) -> Link:
        """Return the cable from a NIC to a switch."""
        return Link("nic", self.bandwidth, self.nic.latency)

    def between(self, ports: float) -> Link:
        """Return what joins two switches, as fast as so many ports."""
        return Link("fabric", ports * self.bandwidth, self.switch.latency)

    def said(self) -> dict[str, str | float]:
        """Return it as a cluster file holds it: `source` is where the bandwidth is from, `assumed` why it was taken."""
        return {
            "name": self.name,
            "bandwidth": self.bandwidth,
            "source" if self.source.startswith("https://") else "assumed": self.source,
            "latency": self.nic.latency,
            "latency_reason": self.nic.reason,
            "switch_latency": self.switch.latency,
            "switch_latency_reason": self.switch.reason,
        }

    def account(self, graph: "nx.DiGraph", between: str = "") -> None:
        """State where a fabric's numbers come from.

        Args:
            between: how fast the links between its switches are and why; empty where it has none.
        """
        if self.source.startswith("https://"):
            graph.graph["sources"]["nic.bandwidth"] = self.source
        else:
            graph.graph["assumptions"].append(f"nic.bandwidth: {self.source}")
        graph.graph["assumptions"].append(self.nic.of("nic.latency"))
        if between:
            graph.graph["assumptions"] += [f"fabric.bandwidth: {between}", self.switch.of("fabric.latency")]


_LISTING = "https://github.com/stas00/ml-engineering (network/README.md @744d01e)"
_EFA_MEASURED = "https://github.com/aws-samples/awsome-distributed-training (micro-benchmarks/nccl-tests/README.md)"
EDR = Network("InfiniBand EDR", 100 * Gbit, _LISTING, NIC_LINK, IB_SWITCH_LINK)
HDR = Network("InfiniBand HDR", 200 * Gbit, _LISTING, NIC_LINK, IB_SWITCH_LINK)
NDR = Network("InfiniBand NDR", 400 * Gbit, _LISTING, NIC_LINK, IB_SWITCH_LINK)
SLINGSHOT_11 = Network(
    "Slingshot-11",
    200 * Gbit,
    "https://docs.nersc.gov/systems/perlmutter/architecture",
    NIC_LINK,
    SLINGSHOT_SWITCH_LINK,
)
ROCE_100 = Network(
    "100 Gb/s Ethernet", 100 * Gbit, "100 Gb/s taken, as such boxes have no NIC of their own", NIC_LINK, IB_SWITCH_LINK
)
ROCE_400 = Network("400 Gb/s Ethernet", 400 * Gbit, _LISTING, NIC_LINK, IB_SWITCH_LINK)

# EFA has no published latency between GPUs. Two machines' all-reduce of few bytes, minus that of one machine, divided
# by the two crossings that the fastest algorithm needs, and by the two links of a crossing.
EFA_P4D = Network(
    "EFA, 100 Gb/s",
    100 * Gbit,
    _LISTING,
    Estimate(31 * us, f"a quarter of 125 us that an all-reduce on two p4de takes longer than on one ({_EFA_MEASURED})"),
    IB_SWITCH_LINK,
)
EFA_P5 = Network(
    "EFA, four of 100 Gb/s",
    400 * Gbit,
    _LISTING,
    Estimate(12 * us, f"a quarter of 48 us that an all-reduce on two p5 takes longer than on one ({_EFA_MEASURED})"),
    IB_SWITCH_LINK,
)
