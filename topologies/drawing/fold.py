"""Machines and switches that are alike, made one, so that a picture of thousands fits a page.

Twins among units (topologies.drawing.parts) become one: machines of one make
whose parts are attached alike to the same switches, and switches of one name that are cabled alike to the same units;
until there are none. Where a tier of switches is still wider than MOST, those of one branch (with the same switches
above them and the same folder in their names, as pod0/) become one, then those of a folder, then all of the tier. At
last all machines of a make do, if they are more than MOST.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from topologies.drawing.parts import MOST, Part, Place, Unit, devices, into_shells, places, stem

if TYPE_CHECKING:
    import networkx as nx


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


def fold_of(graph: "nx.DiGraph") -> Fold:
    """Return every unit by itself."""
    of = devices(graph)
    place = places(graph, of)
    shells = into_shells(graph, of, place)
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
