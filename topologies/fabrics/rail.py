"""Rails: leaf switch i takes NIC i of every machine, and a spine joins the rails.

node0/nic0   node1/nic0        node0/nic1   node1/nic1
      \\       /                      \\       /
       rail0  ======== spine ========  rail1
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from topologies.fabrics import alike, ratio
from topologies.links import cable, cables
from topologies.nics import Network

if TYPE_CHECKING:
    import networkx as nx


def rail(
    graph: "nx.DiGraph", nics: Sequence[Sequence[str]], network: Network, *, oversubscription: float = 1.0
) -> None:
    """Join machines by one switch a rail, and the rails by a spine.

    No path has an equal.

    Args:
        graph, nics, network: as topologies.fabrics.join has them; each machine has as many NICs.
        oversubscription: bytes/s of a rail's NICs together, over those of its link to the spine; 1 blocks nobody.
    Raises:
        ValueError: a number out of range, or machines that differ in their NICs.
    """
    ratio(oversubscription, "oversubscription of rail")
    machines, rails = len(nics), alike(nics, "rail")
    uplink = network.between(machines / oversubscription)
    for i in range(rails):
        graph.add_node(f"rail{i}", kind="switch")
        cables(graph, ((machine[i], f"rail{i}") for machine in nics), network.port())
        if rails > 1:
            graph.add_node("spine", kind="switch")
            cable(graph, f"rail{i}", "spine", uplink)
    network.account(graph, _uplink(oversubscription) if rails > 1 else "")
    graph.graph["assumptions"].append(
        "fabric: a rail is one switch however many machines there are; a real leaf has 32 to 64 ports"
    )


def _uplink(oversubscription: float) -> str:
    """Say how fast a rail's link to the spine is."""
    if oversubscription == 1:
        return "as much from a rail to the spine as its NICs have together (non-blocking)"
    return f"from a rail to the spine 1/{oversubscription:g} of what its NICs have together, as asked for"
