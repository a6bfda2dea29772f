"""Where each node of a graph is: in which unit, and which part of it.

A unit is a machine (the nodes of one host), or a node of no host by itself. A part is a device of a unit, by its kind
and number. NVSwitch chips that are cabled alike are one part; so are, in a machine of more than LARGEST GPUs that are
cabled to each other, those that are as many hops from the first.
"""

import re
from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import networkx as nx

MOST = 12  # boxes of a tier
LARGEST = 24  # GPUs of a machine that are told apart
Unit = tuple[str, str]  # host or node, and its name
Part = tuple[str, int]  # of a unit: a kind, and which of that kind


class Place(NamedTuple):
    """Where a node is."""

    unit: Unit
    part: Part


def stem(name: str) -> str:
    """Return a name without its number or where it is: spine of pod0/spine3."""
    return re.split(r"\d", name.rpartition("/")[2], maxsplit=1)[0].rstrip("-_.: ") or name


def devices(graph: "nx.DiGraph") -> dict[str, str]:
    """Return node -> its device: pcie0 for pcie0/up and pcie0/down, the two ways through it."""
    device = {}
    for node, kind in graph.nodes(data="kind"):
        base, _, way = node.rpartition("/")
        pair = f"{base}/{ {'up': 'down', 'down': 'up'}.get(way, '') }"
        device[node] = base if pair in graph and graph.nodes[pair]["kind"] == kind else node
    return device


def places(graph: "nx.DiGraph", of: dict[str, str]) -> dict[str, Place]:
    """Return where each device is; GPUs are numbered by rank, NVSwitch chips that are cabled alike are one part."""
    found: dict[str, Place] = {}
    seen: Counter[tuple[Unit, str]] = Counter()
    chips: dict[Hashable, Place] = {}
    for node, data in sorted(graph.nodes(data=True), key=lambda item: item[1].get("rank", 0)):
        if of[node] in found:
            continue
        kind, host = data["kind"], data.get("host")
        unit = ("host", host) if host is not None else ("node", of[node])
        place = Place(unit, (kind, seen[unit, kind]))
        if kind == "nvswitch":
            place = chips.setdefault((host, _ends(graph, node)), place)
        found[of[node]] = place
        seen[unit, kind] += place.part == (kind, seen[unit, kind])
    return found


def into_shells(graph: "nx.DiGraph", of: dict[str, str], places: dict[str, Place]) -> set[Unit]:
    """Number the GPUs of large machines, if cabled to each other, by hops from the first; return these machines."""
    gpus: dict[Unit, list[str]] = {}
    for node, kind in graph.nodes(data="kind"):
        if kind == "gpu":
            gpus.setdefault(places[of[node]].unit, []).append(node)
    shells = set()
    for unit, members in gpus.items():
        inside = set(members)
        if len(members) <= LARGEST or any(inside.isdisjoint(graph.succ[gpu]) for gpu in members):
            continue
        shells.add(unit)
        first = min(members, key=lambda gpu: places[gpu].part[1])
        hops, ring, reached = 0, [first], {first}
        while ring:
            for gpu in ring:
                places[gpu] = Place(unit, ("gpu", min(hops, MOST - 1)))
            ring = list(dict.fromkeys(o for gpu in ring for o in graph.succ[gpu] if o in inside and o not in reached))
            reached.update(ring)
            hops += 1
    return shells


def _ends(graph: "nx.DiGraph", chip: str) -> Hashable:
    """Return what an NVSwitch chip is cabled to, and how fast; other chips are not told apart."""
    kinds = graph.nodes(data="kind")
    ends = (
        (other if kinds[other] != "nvswitch" else "", link["bandwidth"]) for other, link in graph.succ[chip].items()
    )
    return frozenset(Counter(ends).items())
