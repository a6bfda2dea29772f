"""Machines with fewer NICs than GPUs."""

from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING

from topologies.findings import Finding, oversubscribed
from topologies.findings.affinity import distances

if TYPE_CHECKING:
    import networkx as nx


def find(graph: "nx.DiGraph") -> list[Finding]:
    """Return a finding for each number of GPUs and of NICs that a machine has."""
    gpus: Counter[str | None] = Counter()
    nics: Counter[str | None] = Counter()
    for node, data in graph.nodes(data=True):
        gpus[data.get("host")] += data["kind"] == "gpu"
        nics[data.get("host")] += data["kind"] == "nic" and _is_cabled(graph, node)
    few: dict[tuple[int, int], list[str]] = defaultdict(list)
    for host, count in gpus.items():
        if host is not None and 0 < nics[host] < count:
            few[count, nics[host]].append(str(host))
    return [
        Finding(
            "GPUs share a NIC",
            tuple(hosts),
            f"{count} GPUs of a machine have {nics} NIC{'s' * (nics > 1)}; mended: one each",
            partial(_mended, graph, hosts),
            by_design=True,
        )
        for (count, nics), hosts in few.items()
    ]


def _is_cabled(graph: "nx.DiGraph", nic: str) -> bool:
    """Whether a NIC is on a network, as those of a machine by itself are not."""
    return any(kind == "nic" for _, _, kind in graph.out_edges(nic, data="kind"))


def _mended(graph: "nx.DiGraph", hosts: list[str]) -> "nx.DiGraph":
    """Return a copy in which each GPU of some machines has a NIC of its own, like the nearest and where that is.

    A fabric that blocked nobody is made as much wider as it takes to block nobody now.
    """
    copy, taken, wanted = graph.copy(), set(), set(hosts)
    for gpu, data in graph.nodes(data=True):
        if data["kind"] != "gpu" or data.get("host") not in wanted:
            continue
        reached = distances(graph, gpu)
        if not reached:
            continue
        nic = data.get("nic") or min(reached, key=lambda one: (reached[one], one in taken))
        if nic not in taken:
            taken.add(nic)
            copy.nodes[gpu]["nic"] = nic
            continue
        new = f"{nic}-of-{gpu.rpartition('/')[2]}"
        copy.add_node(new, **graph.nodes[nic])
        copy.add_edges_from((new, head, dict(link)) for _, head, link in graph.out_edges(nic, data=True))
        copy.add_edges_from((tail, new, dict(link)) for tail, _, link in graph.in_edges(nic, data=True))
        copy.nodes[gpu]["nic"] = new
    return copy if oversubscribed.find(graph) else oversubscribed.mended(copy)
