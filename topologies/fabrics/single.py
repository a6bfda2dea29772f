"""A single switch: every NIC is on it, and only a NIC's own cable limits what it sends and receives."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from topologies.links import cables
from topologies.nics import Network

if TYPE_CHECKING:
    import networkx as nx


def single(graph: "nx.DiGraph", nics: Sequence[Sequence[str]], network: Network) -> None:
    """Join machines by one ideal switch for all.

    Args:
        graph, nics, network: as topologies.fabrics.join has them.
    """
    graph.add_node("switch", kind="switch")
    cables(graph, ((nic, "switch") for machine in nics for nic in machine), network.port())
    network.account(graph)
    graph.graph["assumptions"].append(
        "nic: all are on one switch, however many there are; a real one has 32 to 64 ports"
    )
