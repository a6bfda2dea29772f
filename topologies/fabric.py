"""Fabrics: how the NICs of many machines are joined.

One fabric so far: non-blocking rails. Leaf switch i, "rail i", takes NIC i of every machine; a spine joins
the rails with as much bandwidth as all NICs of a rail have together.

    node0/nic0   node1/nic0        node0/nic1   node1/nic1
          \\       /                      \\       /
           rail0  ======== spine ========  rail1
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from topologies.links import IB_SWITCH_LINK, NIC_LINK, SLINGSHOT_SWITCH_LINK, Estimate, Link, cable
from topologies.units import Gbit

if TYPE_CHECKING:
    import networkx as nx


class Network(NamedTuple):
    """One make of network: bytes/s of a NIC in one direction with its source, and latencies of its links."""

    name: str
    bandwidth: float
    source: str
    nic: Estimate
    switch: Estimate


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


def rail(graph: "nx.DiGraph", nics: Sequence[Sequence[str]], network: Network) -> None:
    """Join machines by a non-blocking rail fabric; a single machine needs none and gets none.

    Args:
        graph: is given the switches and cables, and the sources and assumptions of their numbers.
        nics: for each machine its NICs in order, the same number on each.
        network: what NICs and switches are made of.
    """
    machines, rails = len(nics), len(nics[0])
    if machines == 1:
        return
    port = Link("nic", network.bandwidth, network.nic.latency)
    uplink = Link("fabric", machines * network.bandwidth, network.switch.latency)
    for i in range(rails):
        graph.add_node(f"rail{i}", kind="switch")
        for machine in nics:
            cable(graph, machine[i], f"rail{i}", port)
        if rails > 1:
            graph.add_node("spine", kind="switch")
            cable(graph, f"rail{i}", "spine", uplink)
    _account(graph, network, spine=rails > 1)


def _account(graph: "nx.DiGraph", network: Network, spine: bool) -> None:
    """State where the numbers of the fabric come from."""
    graph.graph["sources"]["nic.bandwidth"] = network.source
    graph.graph["assumptions"].append(network.nic.of("nic.latency"))
    if spine:
        graph.graph["assumptions"] += [
            "fabric.bandwidth: as much from a rail to the spine as its NICs have together (non-blocking)",
            network.switch.of("fabric.latency"),
        ]
    graph.graph["assumptions"].append(
        "fabric: a rail is one switch however many machines there are; a real leaf has 32 to 64 ports"
    )
