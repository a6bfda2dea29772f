"""Machines and switches that are alike, made one, so that a picture of thousands fits a page.

A unit is a machine (the nodes of one host), or a node of no host by itself. Twins become one: machines of one make
whose parts are attached alike to the same switches, and switches of one name that are cabled alike to the same units;
until there are none. Where a tier of switches is still wider than MOST, those of one branch (with the same switches
above them and the same folder in their names, as pod0/) become one, then those of a folder, then all of the tier. At
last all machines of a make do, if they are more than MOST.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
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


class Link(NamedTuple):
    """A sort of link, one way; outer: from one unit to another, which may have become one since."""

    tail: Place
    head: Place
    kind: str
    bandwidth: float
    outer: bool


@dataclass
class Fold:
    """Units, of which some have become one.

    Attributes:
        shape: unit -> what must be equal in units that become one.
        names: unit -> names of those that it is.
        parts: unit -> part -> nodes of the first of them; the two ways through a device are one, as pcie0.
        machines: units with a GPU or a host.
        links: how many there are of each sort.
        one_way: nodes through which data may not turn round.
        shells: machines too large for their GPUs to be told apart, which are cabled to each other: those as many hops
            from the first are one part, its number the hops.
    """

    shape: dict[Unit, Hashable]
    names: dict[Unit, list[str]]
    parts: dict[Unit, dict[Part, list[str]]]
    machines: set[Unit]
    links: Counter[Link]
    one_way: set[str]
    shells: set[Unit]

    def merge(self, key: Callable[[Unit], Hashable], which: Iterable[Unit]) -> None:
        """Make one of all units among `which` that have one key."""
        first: dict[Hashable, Unit] = {}
        into = {unit: first.setdefault(key(unit), unit) for unit in which}
        gone = {unit: kept for unit, kept in into.items() if unit != kept}
        for unit, kept in gone.items():
            self.names[kept] += self.names.pop(unit)
            self.machines.discard(unit)
        if gone:
            links: Counter[Link] = Counter()
            for link, count in self.links.items():
                tail, head = link.tail, link.head
                if tail.unit not in gone and head.unit not in gone:
                    links[link] += count
                    continue
                tail, head = (
                    Place(gone.get(tail.unit, tail.unit), tail.part),
                    Place(gone.get(head.unit, head.unit), head.part),
                )
                links[Link(tail, head, *link[2:])] += count
            self.links = links

    def twins(self, which: Callable[[], Iterable[Unit]]) -> None:
        """Make twins one until there are none."""
        before = 0
        while len(self.names) != before:
            before, to = len(self.names), self._attached()
            keys = {unit: (self.shape[unit], frozenset(to[unit])) for unit in which()}
            self.merge(keys.__getitem__, [unit for unit in self.names if unit in keys])

    def _attached(self) -> dict[Unit, set[Hashable]]:
        """Return unit -> the links by which it is cabled to others."""
        to: dict[Unit, set[Hashable]] = {unit: set() for unit in self.names}
        for tail, head, kind, bandwidth, outer in self.links:
            if outer:
                to[tail.unit].add((tail.part, ">", head, kind, bandwidth))
                to[head.unit].add((head.part, "<", tail, kind, bandwidth))
        return to

    def neighbours(self) -> dict[Unit, set[Unit]]:
        """Return unit -> others that it is cabled to."""
        near: dict[Unit, set[Unit]] = {unit: set() for unit in self.names}
        for tail, head, *_ in self.links:
            if tail.unit != head.unit:
                near[tail.unit].add(head.unit)
                near[head.unit].add(tail.unit)
        return near

    def tiers(self) -> dict[Unit, int]:
        """Return what is no machine -> how far it is from the nearest, at least 1."""
        near, reached, tier = self.neighbours(), dict.fromkeys(self.machines, 0), 0
        ring = list(reached)
        while ring:
            tier += 1
            ring = list(dict.fromkeys(other for unit in ring for other in near[unit] if other not in reached))
            reached |= dict.fromkeys(ring, tier)
        return {unit: reached.get(unit, 1) for unit in self.names if unit not in self.machines}


def stem(name: str) -> str:
    """Return a name without its number or where it is: spine of pod0/spine3."""
    return re.split(r"\d", name.rpartition("/")[2], maxsplit=1)[0].rstrip("-_.: ") or name


def fold_of(graph: "nx.DiGraph") -> Fold:
    """Return every unit by itself."""
    of = _devices(graph)
    place = _places(graph, of)
    shells = _shells(graph, of, place)
    shape: dict[Unit, list[Hashable]] = {}
    names: dict[Unit, list[str]] = {}
    parts: dict[Unit, dict[Part, list[str]]] = {}
    machines, met = set(), set()
    for node, data in graph.nodes(data=True):
        unit, part = place[of[node]]
        is_machine = unit[0] == "host" or data["kind"] == "gpu"
        shape.setdefault(unit, [is_machine or stem(node)]).append((part, data.get("gpu"), data.get("flop_rate")))
        names.setdefault(unit, [unit[1]])
        if of[node] not in met:
            parts.setdefault(unit, {}).setdefault(part, []).append(of[node])
            met.add(of[node])
        if is_machine:
            machines.add(unit)
    links: Counter[Link] = Counter()
    for tail, head, data in graph.edges(data=True):
        a, b = place[of[tail]], place[of[head]]
        links[Link(a, b, data["kind"], data["bandwidth"], a.unit != b.unit)] += 1
    for link, count in links.items():
        if not link.outer:
            shape[link.tail.unit].append((link.tail.part, link.head.part, link.kind, link.bandwidth, count))
    shapes: dict[Unit, Hashable] = {unit: frozenset(Counter(facts).items()) for unit, facts in shape.items()}
    return Fold(
        shapes, names, parts, machines, links, {device for node, device in of.items() if device != node}, shells
    )


def joined(fold: Fold, machines_too: bool) -> Fold:
    """Make one of units that are alike, as the module says; of machines only if asked."""

    def which() -> Iterable[Unit]:
        return set(fold.names) if machines_too else fold.names.keys() - fold.machines

    fold.twins(which)
    for rule in (_branch, _folder, _tier):
        tiers = fold.tiers()
        for tier in range(1, max(tiers.values(), default=0) + 1):
            wide = [unit for unit, at in tiers.items() if at == tier and unit in fold.names]
            if len(wide) > MOST:
                fold.merge(rule(fold, tiers), wide)
        fold.twins(which)
    if machines_too and len(fold.machines) > MOST:
        fold.merge(fold.shape.__getitem__, [unit for unit in fold.names if unit in fold.machines])
        fold.twins(which)
    return fold


def _branch(fold: Fold, tiers: dict[Unit, int]) -> Callable[[Unit], Hashable]:
    """Return what switches of one branch of a tree, or of one group, share."""
    near = fold.neighbours()

    def key(unit: Unit) -> Hashable:
        above = frozenset(other for other in near[unit] if tiers.get(other, 0) > tiers[unit])
        folder, _, _ = fold.names[unit][0].rpartition("/")
        return stem(fold.names[unit][0]), folder, above

    return key


def _folder(fold: Fold, tiers: dict[Unit, int]) -> Callable[[Unit], Hashable]:
    """Return what switches of one folder share; one without is alone."""

    def key(unit: Unit) -> Hashable:
        name = fold.names[unit][0]
        return (tiers[unit], stem(name), name.rpartition("/")[0]) if "/" in name else unit

    return key


def _tier(fold: Fold, tiers: dict[Unit, int]) -> Callable[[Unit], Hashable]:
    """Return what switches of a tier share."""
    return lambda unit: (tiers[unit], stem(fold.names[unit][0]))


def _devices(graph: "nx.DiGraph") -> dict[str, str]:
    """Return node -> its device: pcie0 for pcie0/up and pcie0/down, the two ways through it."""
    device = {}
    for node, kind in graph.nodes(data="kind"):
        base, _, way = node.rpartition("/")
        pair = f"{base}/{ {'up': 'down', 'down': 'up'}.get(way, '') }"
        device[node] = base if pair in graph and graph.nodes[pair]["kind"] == kind else node
    return device


def _places(graph: "nx.DiGraph", of: dict[str, str]) -> dict[str, Place]:
    """Return where each device is; GPUs are numbered by rank, NVSwitch chips that are cabled alike are one part."""
    places: dict[str, Place] = {}
    seen: Counter[tuple[Unit, str]] = Counter()
    chips: dict[Hashable, Place] = {}
    for node, data in sorted(graph.nodes(data=True), key=lambda item: item[1].get("rank", 0)):
        if of[node] in places:
            continue
        kind, host = data["kind"], data.get("host")
        unit = ("host", host) if host is not None else ("node", of[node])
        place = Place(unit, (kind, seen[unit, kind]))
        if kind == "nvswitch":
            place = chips.setdefault((host, _ends(graph, node)), place)
        places[of[node]] = place
        seen[unit, kind] += place.part == (kind, seen[unit, kind])
    return places


def _shells(graph: "nx.DiGraph", of: dict[str, str], places: dict[str, Place]) -> set[Unit]:
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
