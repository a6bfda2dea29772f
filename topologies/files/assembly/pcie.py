"""The PCIe tree of a machine: as a file has it, or the nearest tree to the classes of `topo -m`.

PIX: one switch for both devices. PXB: switches, and none of their paths leaves them. PHB and NODE: one CPU (a NUMA
node), whose own paths slow nothing. SYS: two CPUs, joined by a link between sockets.

         cpu0 ------- cpu1
        /    \\          \\
    pcie0    gpu2       pcie1
    /   \\               /   \\
 gpu0   mlx5_0       gpu3   mlx5_1
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from topologies.files.assembly.nearness import NODE, PHB, PIX, PXB, SYS, Nearness
from topologies.files.facts import CLASSES

if TYPE_CHECKING:
    import networkx as nx


def tree(devices: Mapping[str, str], near: Nearness) -> tuple["nx.DiGraph", list[str]]:
    """Return a PCIe tree of devices (name -> kind) from how near each two are, and what does not fit into a tree.

    In a tree the farther two of three devices are equally far from the third. Where classes are not so, the nearest
    tree below them is taken: two devices are as near as the best path over others says.
    """
    import networkx as nx

    graph: nx.DiGraph = nx.DiGraph()
    for name, kind in devices.items():
        graph.add_node(name, kind=kind)
    names = list(devices)
    pairs = [(a, b, near.known(a, b)) for i, a in enumerate(names) for b in names[i + 1 :]]
    top = {name: name for name in names}
    met: dict[tuple[str, str], int] = {}
    counts: dict[str, int] = defaultdict(int)
    for level in (PIX, PXB, NODE):
        groups = _groups(names, [(a, b) for a, b, value in pairs if value is not None and value <= level])
        for group in groups:
            roots = list(dict.fromkeys(top[name] for name in group))
            if len(roots) == 1 and level != NODE:
                continue
            kind = "cpu" if level == NODE else "pcie"
            above = f"{kind}{counts[kind]}"
            counts[kind] += 1
            graph.add_node(above, kind=kind)
            for root in roots:
                _join(graph, root, above, "pcie")
            for name in group:
                top[name] = above
            met |= {(a, b): level for a in group for b in group if (a, b) not in met}
    cpus = [node for node, kind in graph.nodes(data="kind") if kind == "cpu"]
    for i, a in enumerate(cpus):
        for b in cpus[i + 1 :]:
            _join(graph, a, b, "socket")
    wanted = {PHB: NODE}  # one CPU is one node, whatever bridges it has
    printed = [(a, b, near.printed(a, b)) for a, b, _ in pairs]
    bent = [(a, b, v) for a, b, v in printed if v is not None and met.get((a, b), SYS) < wanted.get(v, v)]
    return graph, _bent(bent, met)


def _bent(bent: Sequence[tuple[str, str, int]], met: Mapping[tuple[str, str], int]) -> list[str]:
    """Say which pairs the tree has nearer than the file."""
    if not bent:
        return []
    a, b, value = bent[0]
    return [
        f"pcie: {len(bent)} pairs of devices do not fit into a tree and are taken to be nearer than printed; "
        f"first, {a} and {b}, {CLASSES[value]}, are taken as {CLASSES[met[a, b]]}"
    ]


def _groups(names: Sequence[str], pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the names in groups that pairs connect, in order."""
    leader = {name: name for name in names}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for a, b in pairs:
        leader[find(b)] = find(a)
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[find(name)].append(name)
    return list(groups.values())


def pruned(given: "nx.DiGraph", keep: Iterable[str]) -> "nx.DiGraph":
    """Return a tree with only those GPUs and NICs, and no switch or CPU that leads to none of them."""
    graph, kept = given.copy(), set(keep)
    idle = [n for n, kind in graph.nodes(data="kind") if kind in ("gpu", "nic") and n not in kept]
    while idle:
        graph.remove_nodes_from(idle)
        idle = [
            n
            for n, kind in graph.nodes(data="kind")
            if (kind == "pcie" and graph.out_degree(n) < 2)
            or (kind == "cpu" and not any(link == "pcie" for _, _, link in graph.out_edges(n, data="kind")))
        ]
    return graph


def staged(given: "nx.DiGraph") -> "nx.DiGraph":
    """Return a tree in which nothing passes a switch but to and from its CPU: no device reads another's memory.

    Each switch becomes two, one for each direction: what goes up leaves it by the CPU, through whose memory it passes.
    """
    import networkx as nx

    cpus = [node for node, kind in given.nodes(data="kind") if kind == "cpu"]
    depth = nx.multi_source_dijkstra_path_length(given, cpus, weight=None) if cpus else {}
    graph: nx.DiGraph = nx.DiGraph()
    for node, data in given.nodes(data=True):
        for name in (f"{node}/up", f"{node}/down") if data["kind"] == "pcie" else (node,):
            graph.add_node(name, **data)
    for tail, head, data in given.edges(data=True):
        way = "up" if depth.get(head, 0) < depth.get(tail, 0) else "down"
        ends = [f"{node}/{way}" if given.nodes[node]["kind"] == "pcie" else node for node in (tail, head)]
        graph.add_edge(*ends, **data)
    return graph


def _join(graph: "nx.DiGraph", a: str, b: str, kind: str) -> None:
    """Join two nodes by a link whose numbers come later."""
    graph.add_edge(a, b, kind=kind, bandwidth=None)
    graph.add_edge(b, a, kind=kind, bandwidth=None)
