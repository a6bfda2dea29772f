"""What a fault is about: the rank, or the directed links, that its words name in a cluster."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import networkx as nx

from algorithms import unknown
from sim.faults import Fault
from sim.network import Network

MOST_NAMES = 20_000  # names among which a near one is looked for


def rank_of(fault: Fault, graph: nx.DiGraph, network: Network) -> int:
    """Return the rank that runs on the GPU a fault names, by number or by name.

    Raises:
        ValueError: no such GPU, or it runs no rank of the job.
    """
    gpus = {data["rank"]: name for name, data in graph.nodes.items() if data.get("rank") is not None}
    named = gpus.get(int(fault.name)) if fault.name.isdecimal() else fault.name
    if named is None:
        raise ValueError(f"no GPU {fault.name} in cluster {network.name}: it has 0 to {len(gpus) - 1}")
    if named not in gpus.values():
        raise ValueError(f"no GPU {named!r} in cluster {network.name}{_hint(named, gpus.values())}")
    if named not in network.gpus:
        raise ValueError(f"{fault}: {named} runs no rank of this job")
    return network.gpus.index(named)


def links_of(fault: Fault, graph: nx.DiGraph, network: Network) -> list[int]:
    """Return the directed links that a fault is about: of a cable, of a NIC, or of a class.

    Raises:
        ValueError: no such thing; the nearest is named.
    """
    if fault.what == "background":
        return _of_class(fault.where, network)
    if fault.kind == "nic":
        return _of_nic(fault.name, graph, network)
    return _of_cable(fault.name, graph, network)


def _of_class(kind: str, network: Network) -> list[int]:
    found = [number for number, of in enumerate(network.kinds) if of == kind]
    if not found:
        raise ValueError(f"{unknown('class of link', kind, sorted(set(network.kinds)))} in cluster {network.name}")
    return found


def _of_nic(name: str, graph: nx.DiGraph, network: Network) -> list[int]:
    nics = [node for node, kind in graph.nodes(data="kind") if kind == "nic"]
    if name not in nics:
        none = ": it has none" if not nics else _hint(name, nics)
        raise ValueError(f"no NIC {name!r} in cluster {network.name}{none}")
    return [network.link(*link) for link in (*graph.out_edges(name), *graph.in_edges(name))]


def _of_cable(name: str, graph: nx.DiGraph, network: Network) -> list[int]:
    for place in (k for k, letter in enumerate(name) if letter == "-"):
        a, b = name[:place], name[place + 1 :]
        ways = [way for way in ((a, b), (b, a)) if graph.has_edge(*way)]
        if ways:
            return [network.link(*way) for way in ways]
    raise ValueError(f"no link {name!r} in cluster {network.name}{_hint(name, _cables(name, graph))}")


def _cables(name: str, graph: nx.DiGraph) -> Iterable[str]:
    """Names of cables, those of the end that is right if one is."""
    ends = [end for end in (name.split("-", 1)[0], name.rsplit("-", 1)[-1]) if end in graph]
    edges = [edge for end in ends for edge in graph.edges(end)] or list(graph.edges)
    return ("-".join(map(str, edge)) for edge in edges)


def _hint(name: str, known: Iterable[str]) -> str:
    """The nearest name as the end of a message."""
    names = list(known)
    if len(names) > MOST_NAMES:
        names = [other for other in names if other[:5] == name[:5]][:MOST_NAMES]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.3)
    return f": nearest is {near[0]}" if near else ""
