"""Rails without a spine: switch i takes NIC i of every machine, and nothing joins the switches.

node0/nic0   node1/nic0        node0/nic1   node1/nic1
      \\       /                      \\       /
       rail0                          rail1              from rail to rail over NVLink, through a GPU
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from topologies.fabrics import alike
from topologies.links import cables
from topologies.nics import Network

if TYPE_CHECKING:
    import networkx as nx


def rail_only(graph: "nx.DiGraph", nics: Sequence[Sequence[str]], network: Network) -> None:
    """Join machines by one switch a rail, and the rails by nothing.

    What goes to another rail passes the GPU of that rail in its own machine, or of its own rail in the other.

    Args:
        graph, nics, network: as topologies.fabrics.join has them; each machine has as many NICs.
    Raises:
        ValueError: machines that differ in their NICs.
    References:
        Wang, Ghobadi, Shakeri, Zhang, Hasani. "Rail-only: A Low-Cost High-Performance Network for Training LLMs with
        Trillion Parameters." 2023. arXiv:2307.12169.
    """
    for i in range(alike(nics, "rail_only")):
        graph.add_node(f"rail{i}", kind="switch")
        cables(graph, ((machine[i], f"rail{i}") for machine in nics), network.port())
    network.account(graph)
    graph.graph["assumptions"] += [
        "fabric: a rail is one switch however many machines there are; a real leaf has 32 to 64 ports",
        "fabric: rails are not joined; what crosses them goes over NVLink and is taken to cost the GPU between no time",
    ]
