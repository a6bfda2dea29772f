"""A fat tree: leaves under spines, and where one spine has no room for all leaves, pods of them under cores.

core0.0  core0.1      core1.0  core1.1       spine s of each pod is cabled to every core s.*
     \\    |   \\          |    /   |
    pod0/spine0  pod1/spine0  pod0/spine1   pod1/spine1     each leaf is cabled to every spine of its pod
       |      \\                 /
     leaf0    leaf1                                         NICs fill leaf after leaf, machine by machine
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from topologies.fabrics import MOST, ratio, uplinks
from topologies.links import cables
from topologies.nics import Network
from topologies.units import in_range

if TYPE_CHECKING:
    import networkx as nx

PORTS_SOURCE = (
    "https://docs.nvidia.com/dgx-superpod/reference-architecture-scalable-infrastructure-b200/latest/"
    "dgx-superpod-architecture.html (64-port switches; that half of a leaf's ports go down is derived)"
)


class Shape(NamedTuple):
    """How many there are of what.

    Attributes:
        leaf: NICs of a leaf. spines: of each pod, or of all leaves where there are no pods.
        pod: leaves of a pod, and cores above a spine. pods: 0 with two tiers.
        width: bytes/s of a link between two switches, in ports.
    """

    leaf: int
    leaves: int
    spines: int
    pod: int
    pods: int
    width: float


def fat_tree(
    graph: "nx.DiGraph",
    nics: Sequence[Sequence[str]],
    network: Network,
    *,
    oversubscription: float = 1.0,
    leaf: int | None = None,
    spines: int | None = None,
    ports: int = 64,
    tiers: int | None = None,
) -> None:
    """Join machines by a fat tree of two or three tiers.

    There are as many equal paths as ways up, so that routing matters: hashed ECMP, unless another is asked for.

    Args:
        graph, nics, network: as topologies.fabrics.join has them.
        oversubscription: bytes/s of a leaf's NICs together, over those of its uplinks; above the leaves nothing blocks.
        leaf: NICs of a leaf switch; half of ports unless said.
        spines: above each leaf; one for each uplink as fast as a NIC unless said. Fewer have faster links.
        ports: links that a switch has room for.
        tiers: 2, or 3 for pods of ports // 2 leaves; as few as will do unless said.
    Raises:
        ValueError: a number out of range, or more NICs than such a tree has room for.
    References:
        Al-Fares, Loukissas, Vahdat. "A Scalable, Commodity Data Center Network Architecture." SIGCOMM 2008:
        three tiers of k-port switches join k^3/4 hosts; here ports=k, tiers=3.
    """
    names = list(chain.from_iterable(nics))
    shape = _shape(len(names), oversubscription, leaf, spines, ports, tiers)
    ups = list(_cables(shape))
    graph.add_nodes_from((f"leaf{leaf}" for leaf in range(shape.leaves)), kind="switch")
    graph.add_nodes_from((upper for _, upper in ups), kind="switch")
    cables(graph, ((nic, f"leaf{number // shape.leaf}") for number, nic in enumerate(names)), network.port())
    cables(graph, ups, network.between(shape.width))
    graph.graph["routing"] = "ecmp"
    _account(graph, network, shape, oversubscription, ports)


def _shape(
    nics: int, oversubscription: float, leaf: int | None, spines: int | None, ports: int, tiers: int | None
) -> Shape:
    """Work out how many switches there are.

    Raises:
        ValueError: there is no such tree.
    """
    ratio(oversubscription, "oversubscription of fat_tree")
    pod = in_range(ports, "ports of fat_tree", 2, int(MOST)) // 2
    leaf = in_range(pod if leaf is None else leaf, "leaf of fat_tree", maximum=int(MOST))
    if spines is None:
        spines = uplinks("fat_tree", "leaf", leaf, oversubscription, "; say how many spines")
    in_range(spines, "spines of fat_tree", maximum=int(MOST))
    if leaf + spines > ports:
        raise ValueError(f"a leaf of fat_tree has {leaf} NICs and {spines} spines: a switch has ports={ports}")
    leaves = -(-nics // leaf)
    if tiers is None:
        tiers = 2 if leaves <= ports else 3
    most = {2: ports, 3: pod * ports}.get(in_range(tiers, "tiers of fat_tree", 2, 3), 0)
    if leaves > most:
        raise ValueError(
            f"fat_tree of tiers={tiers}, ports={ports}, leaf={leaf} has room for {most * leaf} NICs: here are {nics}"
        )
    pods = -(-leaves // pod) if tiers == 3 else 0
    return Shape(leaf, leaves, spines, pod, pods, leaf / oversubscription / spines)


def _cables(shape: Shape) -> Iterator[tuple[str, str]]:
    """Yield the lower and the upper switch of every cable between two."""
    for leaf in range(shape.leaves):
        where = f"pod{leaf // shape.pod}/" if shape.pods else ""
        for spine in range(shape.spines):
            yield f"leaf{leaf}", f"{where}spine{spine}"
    for pod in range(shape.pods):
        for spine in range(shape.spines):
            for core in range(shape.pod):
                yield f"pod{pod}/spine{spine}", f"core{spine}.{core}"


def _account(graph: "nx.DiGraph", network: Network, shape: Shape, oversubscription: float, ports: int) -> None:
    """State where the numbers come from, and what the tree looks like."""
    share = "what" if oversubscription == 1 else f"1/{oversubscription:g} of what"
    network.account(graph, f"a leaf's links to its {shape.spines} spines carry together {share} its NICs do")
    if (ports, shape.leaf) == (64, 32):
        graph.graph["sources"]["fabric.ports"] = PORTS_SOURCE
    pods = f" in {shape.pods} pods, {shape.pod} cores above each spine" if shape.pods else ""
    graph.graph["assumptions"].append(
        f"fabric: {shape.leaves} leaves of {shape.leaf} NICs{pods}; NICs fill leaf after leaf, machine by machine"
    )
