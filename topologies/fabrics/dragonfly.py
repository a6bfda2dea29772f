"""A dragonfly: groups of switches, all joined to each other within a group, and cables from every group to every other.

group0                         group1
switch0 --- switch1            switch0 --- switch1         NICs fill switch after switch, group after group
   |   \\   /   |                  |   \\   /   |
switch2 --- switch3 ========== switch2 --- switch3         at most three switch-to-switch hops: local, global, local
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import TYPE_CHECKING, NamedTuple

from topologies.fabrics import MOST
from topologies.links import cables
from topologies.nics import Network
from topologies.units import in_range, ns, us

if TYPE_CHECKING:
    import networkx as nx

GLOBAL_CABLE = 500 * ns  # 100 m of fibre at 5 ns/m; so two global hops are longer than one with a local at either end
SLINGSHOT_SOURCE = (
    "https://alcf.anl.gov/support-center/aurora/interconnect (64 ports, full mesh in a group, all-to-all between "
    "groups); "
    "https://docs.nersc.gov/systems/perlmutter/architecture (group of 32 switches and 128 nodes of four NICs)"
)


class Shape(NamedTuple):
    """How many there are of what: NICs of a switch, switches of a group, groups, cables between each two groups."""

    hosts: int
    switches: int
    groups: int
    links: int


def dragonfly(
    graph: "nx.DiGraph",
    nics: Sequence[Sequence[str]],
    network: Network,
    *,
    hosts: int = 16,
    switches: int | None = None,
    links: int | None = None,
    ports: int = 64,
) -> None:
    """Join machines by a dragonfly: groups of switches in full mesh, and all groups joined to each other.

    A switch says its `group`. Shortest paths are few, and share cables as fast as one NIC; so what is routed adaptively
    also takes detours, which is what it does unless another routing is asked for.

    Args:
        graph, nics, network: as topologies.fabrics.join has them.
        hosts: NICs of a switch, p of the paper; those of Slingshot as on Perlmutter unless said.
        switches: of a group, a; 2p unless said, and where there is only one group no more than its ports allow. All
            switches of a group are there, also those without NICs, through which detours lead.
        links: cables between each two groups; unless said those of p ports of every switch, dealt equally, at least 1.
        ports: links that a switch has room for.
    Raises:
        ValueError: a number out of range, or more NICs than such a network has room for.
    References:
        Kim, Dally, Scott, Abts. "Technology-Driven, Highly-Scalable Dragonfly Topology." ISCA 2008: a = 2p = 2h is
        balanced, with h global cables a switch; it joins up to a*h + 1 groups.
    """
    names = list(chain.from_iterable(nics))
    shape = _shape(len(names), hosts, switches, links, ports)
    for group in range(shape.groups):
        members = [_switch(group, k) for k in range(shape.switches)]
        graph.add_nodes_from(members, kind="switch", group=group)
        cables(graph, combinations(members, 2), network.between(1))
    near = ((nic, _switch(*divmod(number // shape.hosts, shape.switches))) for number, nic in enumerate(names))
    cables(graph, near, network.port())
    wide = Counter(_globals(shape))
    for width in set(wide.values()):
        link = network.between(width)
        far = link._replace(latency=link.latency + GLOBAL_CABLE)
        cables(graph, (ends for ends, count in wide.items() if count == width), far)
    graph.graph["routing"] = "adaptive"
    _account(graph, network, shape, ports)


def _shape(nics: int, hosts: int, switches: int | None, links: int | None, ports: int) -> Shape:
    """Work out how many switches there are.

    Raises:
        ValueError: there is no such network.
    """
    in_range(hosts, "hosts of dragonfly", maximum=int(MOST))
    in_range(ports, "ports of dragonfly", maximum=int(MOST))
    full = in_range(2 * hosts if switches is None else switches, "switches of dragonfly", maximum=int(MOST))
    groups = -(-nics // (hosts * full))
    used = full if groups > 1 else max(-(-nics // hosts), min(full, ports - hosts + 1))
    free = ports - hosts - (used - 1)  # of a switch, for global cables
    if free < (groups > 1):
        needs, what = hosts + used - 1 + (groups > 1), f"dragonfly of hosts={hosts}, {used} switches a group,"
        raise ValueError(f"{what} needs {needs} ports of a switch: it has ports={ports}")
    if groups == 1:
        return Shape(hosts, used, 1, 0)
    links = max(1, full * min(hosts, free) // (groups - 1)) if links is None else links
    in_range(links, "links of dragonfly", maximum=int(MOST))
    each = -(-(groups - 1) * links // full)
    if each > free:
        raise ValueError(
            f"dragonfly of {groups} groups, links={links} between each two, needs {each} global ports of each of "
            f"{full} switches: it has {free} of ports={ports}"
        )
    return Shape(hosts, full, groups, links)


def _switch(group: int, number: int) -> str:
    """Name a switch."""
    return f"group{group}/switch{number}"


def _globals(shape: Shape) -> Iterator[tuple[str, str]]:
    """Yield the ends of every global cable. A group deals its cables to its switches in turn, by how far they go."""
    for a, b in combinations(range(shape.groups), 2):
        for k in range(shape.links):
            ahead = (b - a - 1) * shape.links + k
            behind = (shape.groups - (b - a) - 1) * shape.links + k
            yield _switch(a, ahead % shape.switches), _switch(b, behind % shape.switches)


def _account(graph: "nx.DiGraph", network: Network, shape: Shape, ports: int) -> None:
    """State where the numbers come from, and what the network looks like."""
    network.account(graph, "a cable between two switches is as fast as a NIC")
    if (shape.hosts, ports) == (16, 64):
        graph.graph["sources"]["fabric.groups"] = SLINGSHOT_SOURCE
    between = f", {shape.links} cables between each two" if shape.groups > 1 else ""
    graph.graph["assumptions"].append(
        f"fabric: {shape.groups} group{'s' * (shape.groups > 1)} of {shape.switches} switches of {shape.hosts} NICs"
        f"{between}; NICs fill switch after switch, machine by machine, and the last may have none: whole groups are "
        "there, as in a real system, and nobody else sends"
    )
    if between:
        far = f"{GLOBAL_CABLE / us:.2f} us more, as for 100 m of fibre at 5 ns/m"
        graph.graph["assumptions"].append(f"fabric.latency of a global cable: {far}")
