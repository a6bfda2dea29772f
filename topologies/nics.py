"""NICs and the switches they are cabled to: makes of network, with the numbers that fabrics are built of."""

from typing import TYPE_CHECKING, NamedTuple

from topologies.links import IB_SWITCH_LINK, NIC_LINK, SLINGSHOT_SWITCH_LINK, Estimate, Link
from topologies.units import Gbit

if TYPE_CHECKING:
    import networkx as nx

ASKED = "as asked for"


class Network(NamedTuple):
    """One make of network: bytes/s of a NIC in one direction with its source, and latencies of its links.

    A source that begins with ASKED is the caller's word, and counts as an assumption.
    """

    name: str
    bandwidth: float
    source: str
    nic: Estimate
    switch: Estimate

    def at(self, gbit: float) -> "Network":
        """Return the same network with NICs of so many Gbit/s, as somebody asks for."""
        return self._replace(bandwidth=gbit * Gbit, source=f"{ASKED}, {gbit:g} Gbit/s in place of {self.name}'s")

    def port(self) -> Link:
        """Return the cable from a NIC to a switch."""
        return Link("nic", self.bandwidth, self.nic.latency)

    def between(self, ports: float) -> Link:
        """Return what joins two switches, as fast as so many ports."""
        return Link("fabric", ports * self.bandwidth, self.switch.latency)

    def account(self, graph: "nx.DiGraph", between: str = "") -> None:
        """State where a fabric's numbers come from.

        Args:
            between: how fast the links between its switches are and why; empty where it has none.
        """
        if self.source.startswith(ASKED):
            graph.graph["assumptions"].append(f"nic.bandwidth: {self.source}")
        else:
            graph.graph["sources"]["nic.bandwidth"] = self.source
        graph.graph["assumptions"].append(self.nic.of("nic.latency"))
        if between:
            graph.graph["assumptions"] += [f"fabric.bandwidth: {between}", self.switch.of("fabric.latency")]


_LISTING = "https://github.com/stas00/ml-engineering (network/README.md @744d01e)"
HDR = Network("InfiniBand HDR", 200 * Gbit, _LISTING, NIC_LINK, IB_SWITCH_LINK)
NDR = Network("InfiniBand NDR", 400 * Gbit, _LISTING, NIC_LINK, IB_SWITCH_LINK)
SLINGSHOT_11 = Network(
    "Slingshot-11",
    200 * Gbit,
    "https://docs.nersc.gov/systems/perlmutter/architecture",
    NIC_LINK,
    SLINGSHOT_SWITCH_LINK,
)
