"""NICs that are far from the GPUs they serve: on another socket, or on the CPU instead of a GPU's PCIe switch."""

from collections import defaultdict
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from topologies.findings import Finding, back

if TYPE_CHECKING:
    import networkx as nx

NEAR = ("pcie", "socket")  # kinds of link on the way from a GPU to its NIC


class Distance(NamedTuple):
    """What is between a GPU and a NIC: links between sockets, CPUs, PCIe switches."""

    sockets: int
    cpus: int
    switches: int

    def __str__(self) -> str:
        if self.sockets:
            return "across sockets"
        return "through the CPU" if self.cpus else "on the same PCIe switch" if self.switches <= 1 else "over PCIe"


def find(graph: "nx.DiGraph") -> list[Finding]:
    """Return the findings about the NIC of each GPU: the one it names, or else the nearest."""
    named: dict[tuple[str, str], list[tuple[str, str, str]]] = defaultdict(list)
    far: list[tuple[str, str]] = []
    on_cpu: list[tuple[str, str]] = []
    for gpu, data in graph.nodes(data=True):
        reached = distances(graph, gpu) if data["kind"] == "gpu" else {}
        if not reached:
            continue
        nearest = min(reached, key=lambda nic: reached[nic])
        chosen = data.get("nic", nearest)
        if reached.get(chosen, reached[nearest])[:2] > reached[nearest][:2]:
            named[str(reached[chosen]), str(reached[nearest])].append((gpu, chosen, nearest))
        if reached[nearest].sockets:
            far.append((gpu, chosen if reached.get(chosen) == reached[nearest] else nearest))
        elif reached[nearest].cpus and _is_on(graph, gpu, "pcie") and _is_on(graph, nearest, "cpu"):
            on_cpu.append((gpu, nearest))
    return [
        *(_misnamed(graph, *key, some) for key, some in named.items()),
        *([_far(graph, far)] if far else []),
        *([_on_cpu(graph, on_cpu)] if on_cpu else []),
    ]


def distances(graph: "nx.DiGraph", gpu: str) -> dict[str, Distance]:
    """Return how far each NIC is that a GPU reaches without passing another GPU, another NIC or the network."""
    found: dict[str, Distance] = {}
    heap, done = [(Distance(0, 0, 0), gpu)], set()
    while heap:
        here, node = heappop(heap)
        if node in done:
            continue
        done.add(node)
        kind = graph.nodes[node]["kind"]
        if kind == "nic":
            found[node] = here
        if kind in ("gpu", "nic") and node != gpu:
            continue
        passed = Distance(here.sockets, here.cpus + (kind == "cpu"), here.switches + (kind == "pcie"))
        for _, head, link in graph.out_edges(node, data="kind"):
            if link in NEAR:
                heappush(heap, (passed._replace(sockets=passed.sockets + (link == "socket")), head))
    return found


def _is_on(graph: "nx.DiGraph", device: str, kind: str) -> bool:
    """Whether a device is attached to a node of that kind."""
    return any(graph.nodes[head]["kind"] == kind for head in graph.successors(device))


def _misnamed(graph: "nx.DiGraph", there: str, nearer: str, some: list[tuple[str, str, str]]) -> Finding:
    """Return the finding of GPUs that name a NIC while another is nearer."""
    return Finding(
        "GPU uses a far NIC",
        tuple(f"{gpu} uses {nic}, {nearest} is nearer" for gpu, nic, nearest in some),
        f"{there}, while another is {nearer}",
        partial(_renamed, graph, {gpu: nearest for gpu, _, nearest in some}),
        as_is=partial(_bound, graph, [gpu for gpu, _, _ in some]),
    )


def _far(graph: "nx.DiGraph", some: list[tuple[str, str]]) -> Finding:
    """Return the finding of GPUs that have no NIC on their socket."""
    return Finding(
        "no NIC on the GPU's socket",
        tuple(f"{gpu} uses {nic}" for gpu, nic in some),
        f"{len(some)} GPUs cross sockets; mended: another such NIC where each of them is attached",
        partial(_with_nics, graph, some),
    )


def _on_cpu(graph: "nx.DiGraph", some: list[tuple[str, str]]) -> Finding:
    """Return the finding of NICs on a CPU whose GPUs are on PCIe switches."""
    nics = list(dict.fromkeys(nic for _, nic in some))
    return Finding(
        "NIC on the CPU, not on a GPU's PCIe switch",
        tuple(nics),
        f"{len(some)} GPUs go through the CPU",
        partial(_moved, graph, some),
    )


def _bound(graph: "nx.DiGraph", gpus: list[str]) -> "nx.DiGraph":
    """Return a copy in which these GPUs leave their machine by the NIC they name, though routes take the nearest."""
    copy = graph.copy()
    for gpu in gpus:
        copy.nodes[gpu]["bound"] = True
    return copy


def _renamed(graph: "nx.DiGraph", nearest: dict[str, str]) -> "nx.DiGraph":
    """Return a copy in which GPUs name other NICs."""
    copy = graph.copy()
    for gpu, nic in nearest.items():
        copy.nodes[gpu]["nic"] = nic
    return copy


def _with_nics(graph: "nx.DiGraph", some: list[tuple[str, str]]) -> "nx.DiGraph":
    """Return a copy in which each of these GPUs has, where it is attached, a NIC like the one it uses."""
    copy = graph.copy()
    made: dict[tuple[str, ...], str] = {}
    for gpu, nic in some:
        place = tuple(head for _, head, kind in graph.out_edges(gpu, data="kind") if kind == "pcie")
        if place not in made:
            made[place] = f"{nic}-{len(made) + 1}"
            copy.add_node(made[place], **graph.nodes[nic])
            _cabled(graph, copy, nic, made[place])
            _attached(graph, copy, nic, made[place], gpu)
        copy.nodes[gpu]["nic"] = made[place]
    return copy


def _moved(graph: "nx.DiGraph", some: list[tuple[str, str]]) -> "nx.DiGraph":
    """Return a copy in which each of these NICs is attached where the first GPU that uses it is."""
    copy, done = graph.copy(), set()
    for gpu, nic in some:
        if nic not in done:
            done.add(nic)
            inside = [
                edge for edge in (*graph.out_edges(nic), *graph.in_edges(nic)) if graph.edges[edge]["kind"] in NEAR
            ]
            copy.remove_edges_from(inside)
            _attached(graph, copy, nic, nic, gpu)
    return copy


def _cabled(graph: "nx.DiGraph", copy: "nx.DiGraph", nic: str, new: str) -> None:
    """Cable a new NIC to the network as another is."""
    for _, head, link in graph.out_edges(nic, data=True):
        if link["kind"] not in NEAR:
            copy.add_edge(new, head, **link)
    for tail, _, link in graph.in_edges(nic, data=True):
        if link["kind"] not in NEAR:
            copy.add_edge(tail, new, **link)


def _attached(graph: "nx.DiGraph", copy: "nx.DiGraph", nic: str, new: str, gpu: str) -> None:
    """Attach a NIC where a GPU is, by links like those by which `nic` is attached."""
    link = next(link for _, _, link in graph.out_edges(nic, data=True) if link["kind"] in NEAR)
    for _, head, kind in graph.out_edges(gpu, data="kind"):
        if kind == "pcie":
            copy.add_edge(new, head, **link)
            tail, _ = back(new, head)
            copy.add_edge(tail, new, **link)
