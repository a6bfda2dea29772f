"""A cluster: one machine, copied and joined by a fabric.

A machine is a graph of its own, written once: its nodes have short names (gpu0, nic0, pcie0, cpu0, nvswitch), its GPUs
the ranks 0 .. G-1, and `graph.graph` its name, sources and assumptions and, where it has NICs, their make as `network`.
In a cluster the nodes of copy n are node<n>/gpu0 and so on.
"""

import networkx as nx

from topologies.attach import attached, attachment, through_nvlink
from topologies.fabrics import Fabric, named
from topologies.fabrics.rail import rail
from topologies.garbage import uncollected
from topologies.hardware import Gpu
from topologies.units import in_range


def machine(name: str, gpu: Gpu | None = None) -> nx.DiGraph:
    """Return a machine without nodes, with what is known of the numbers of its GPUs."""
    sources, assumptions = (gpu.sources(), gpu.assumptions()) if gpu else ({}, [])
    return nx.DiGraph(name=name, sources=sources, assumptions=assumptions)


def cluster(one: nx.DiGraph, count: int = 1, fabric: Fabric = rail, unit: str = "node") -> nx.DiGraph:
    """Return copies of a machine, joined by a fabric; a single one needs none, gets none, and says its `network`.

    A node that names a `host` lives on that part of the machine, as on a tray of a rack, and one beside it that names
    none on no host; where no node names one, each copy is a host.

    Args:
        one: a machine, as above; it is not changed.
        count: how many, at least 1; ranks G * n and up live on copy n.
        fabric: joins the NICs of all hosts, which it may also choose: see topologies.attach.
        unit: what a copy is called, as in node0.
    Raises:
        ValueError: count is less than 1, the fabric has no room, or several copies have no NICs to be joined by.
    """
    in_range(count, f"{unit}s")
    chosen, bare = attachment(fabric)
    if count > 1 and "network" not in one.graph:
        raise ValueError(f"{unit}s {count}: {one.graph['name']} has no NICs to be joined by")
    one = attached(one, chosen) if count > 1 else one
    facts = one.graph
    graph = nx.DiGraph(
        name=f"{facts['name']}({count})", sources=dict(facts["sources"]), assumptions=list(facts["assumptions"])
    )
    with uncollected():
        _copy(graph, one, count, unit)
        if count > 1:
            bare(graph, _nics(graph), facts["network"])
            named(graph, fabric)
            if chosen.pxn:
                through_nvlink(graph)
        elif "network" in facts:
            graph.graph["network"] = facts["network"].said()  # so that a file of this machine can be repeated
    return graph


def _copy(graph: nx.DiGraph, one: nx.DiGraph, count: int, unit: str) -> None:
    """Add so many copies of a machine."""
    gpus = sum(kind == "gpu" for _, kind in one.nodes(data="kind"))
    is_host = not any("host" in data for _, data in one.nodes(data=True))
    nodes = [(f"/{node}", data) for node, data in one.nodes(data=True)]
    links = [(f"/{tail}", f"/{head}", link) for tail, head, link in one.edges(data=True)]
    for n in range(count):
        where = f"{unit}{n}"
        graph.add_nodes_from((where + node, _placed(data, where, gpus * n, is_host)) for node, data in nodes)
        graph.add_edges_from((where + tail, where + head, link) for tail, head, link in links)


def _placed(data: dict[str, object], where: str, first: int, is_host: bool) -> dict[str, object]:
    """Return the attributes of a node of the copy called `where`, whose ranks begin with `first`."""
    placed = dict(data)
    if is_host or "host" in data:
        placed["host"] = where if is_host else f"{where}/{data['host']}"
    if "nic" in data:
        placed["nic"] = f"{where}/{data['nic']}"
    if data["kind"] == "gpu":
        placed["rank"] = first + int(str(data["rank"]))
    return placed


def _nics(graph: nx.DiGraph) -> list[list[str]]:
    """Name the NICs of every host."""
    by_host: dict[str, list[str]] = {}
    for node, data in graph.nodes(data=True):
        if data["kind"] == "nic":
            by_host.setdefault(data["host"], []).append(node)
    return list(by_host.values())
