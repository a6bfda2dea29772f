"""What a picture of a topology shows: its nodes as boxes, where those that are alike are one box.

Up to FULL GPUs every machine is drawn. Beyond, machines that are alike are one (topologies.drawing.fold); the first of
each make is drawn in full, of the MAKES that there are most of, another as one box. Switches that are alike are one
whatever the size.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topologies.drawing.fold import Fold, fold_of, joined
from topologies.drawing.parts import LARGEST, MOST, Place, Unit, stem

if TYPE_CHECKING:
    import networkx as nx

FULL = 16  # GPUs up to which every machine is drawn
MAKES = 2  # of machine that are drawn in full
Sort = tuple[str, int]  # kind of node, and tier of a switch


@dataclass(frozen=True)
class Box:
    """One box.

    Attributes:
        label: the name of its first node, without its machine's; of a machine, the machine's.
        kind: of its nodes, or `machine`.
        nodes: nodes of the graph that it stands for. first: one of them.
        tier: of a switch, 1 next to the machines; else 0.
        frame: the machine in which it is drawn, -1: in none. holds: what a machine has inside.
        one_way: whether data may not turn round in it, as in a PCIe switch without peer-to-peer.
    """

    label: str
    kind: str
    nodes: int
    first: str
    tier: int = 0
    frame: int = -1
    holds: str = ""
    one_way: bool = False


@dataclass(frozen=True)
class Strand:
    """Links of one kind and bandwidth (bytes/s of each, one way), counted in each direction."""

    kind: str
    bandwidth: float
    there: int
    back: int


@dataclass(frozen=True)
class Wire:
    """All links between boxes a and b, by their numbers.

    among: they join different machines, or switches, that are drawn as one.
    """

    a: int
    b: int
    strands: tuple[Strand, ...]
    among: bool = False


@dataclass(frozen=True)
class Frame:
    """A machine that is drawn in full: its name, and how many are alike."""

    name: str
    count: int


@dataclass(frozen=True)
class Total:
    """All links of one sort between nodes of two kinds, with the tier of switches, 0 of others."""

    a: Sort
    b: Sort
    strand: Strand


@dataclass(frozen=True)
class Outline:
    """What is drawn.

    Attributes:
        wires: between boxes, by their numbers.
        totals: of all links, those inside of machines drawn as one box as well.
        nodes: kind and tier -> how many nodes there are.
    """

    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    frames: tuple[Frame, ...]
    totals: tuple[Total, ...]
    nodes: Mapping[Sort, int]


def outline(graph: "nx.DiGraph") -> Outline:
    """Return the boxes that stand for the nodes of a graph, and the wires that stand for its links."""
    is_large = sum(kind == "gpu" for _, kind in graph.nodes(data="kind")) > FULL
    fold = joined(fold_of(graph), is_large)
    frames, frame = _frames(fold, is_large)
    boxes, number = _boxes(fold, frame)
    nodes: Counter[Sort] = Counter()
    tiers = fold.tiers()
    for unit, names in fold.names.items():
        for part, devices in fold.parts[unit].items():
            nodes[_sort(Place(unit, part), tiers)] += len(devices) * len(names)
    return Outline(tuple(boxes), _wires(fold, boxes, number), tuple(frames), _totals(fold, tiers), nodes)


def _sort(place: Place, tiers: dict[Unit, int]) -> Sort:
    """Return the kind of a node, and the tier of a switch."""
    return place.part[0], tiers.get(place.unit, 0) if place.part[0] == "switch" else 0


def _totals(fold: Fold, tiers: dict[Unit, int]) -> tuple[Total, ...]:
    """Count the links between each two kinds of nodes."""
    found: dict[tuple[Sort, Sort, str, float], list[int]] = {}
    for link, count in fold.links.items():
        a, b = _sort(link.tail, tiers), _sort(link.head, tiers)
        ways = found.setdefault((min(a, b), max(a, b), link.kind, link.bandwidth), [0, 0])
        ways[a > b] += count
    totals = []
    for (a, b, kind, bandwidth), (there, back) in found.items():
        if a == b:  # both directions of each cable were counted as `there`
            there, back = there - there // 2, there // 2
        totals.append(Total(a, b, Strand(kind, bandwidth, there, back)))
    return tuple(totals)


def _frames(fold: Fold, is_large: bool) -> tuple[list[Frame], dict[Unit, int]]:
    """Return the machines drawn in full, and for each machine of several parts which it is, -1: none."""
    frames: list[Frame] = []
    frame: dict[Unit, int] = {}
    many: Counter[Hashable] = Counter()
    for unit in fold.names:
        if unit not in fold.machines:
            continue
        gpus = sum(kind == "gpu" for kind, _ in fold.parts[unit])  # as many boxes
        many[fold.shape[unit]] += len(fold.names[unit]) if len(fold.parts[unit]) > 1 and gpus <= LARGEST else 0
    common = sorted(many, key=lambda shape: -many[shape])[:MAKES]
    makes: set[Hashable] = set()
    for unit in fold.names:
        if unit not in fold.machines or len(fold.parts[unit]) == 1:
            continue
        is_first = fold.shape[unit] not in makes and fold.shape[unit] in common and many[fold.shape[unit]] > 0
        makes.add(fold.shape[unit])
        frame[unit] = -1
        if is_first or not is_large:
            frame[unit] = len(frames)
            frames.append(Frame(fold.names[unit][0], len(fold.names[unit])))
    return frames, frame


def _boxes(fold: Fold, frame: dict[Unit, int]) -> tuple[list[Box], dict[Place, int]]:
    """Return the boxes, and for each part of each unit the number of its box."""
    boxes: list[Box] = []
    number: dict[Place, int] = {}
    tiers = fold.tiers()
    for unit, names in fold.names.items():
        if frame.get(unit, 0) < 0:
            number |= {Place(unit, part): len(boxes) for part in fold.parts[unit]}
            boxes.append(Box(_label(names), "machine", len(names), names[0], holds=_holds(fold, unit)))
            continue
        for part, nodes in fold.parts[unit].items():
            number[Place(unit, part)] = len(boxes)
            kind, at = part[0], frame.get(unit, -1)
            alike = names if unit[0] == "node" else [nodes[0]] * len(names)
            label = nodes[0].removeprefix(f"{names[0]}/") if at >= 0 else _label(alike)
            label = stem(label) if len(nodes) > 1 else label
            if unit in fold.shells and kind == "gpu" and part[1]:
                label = f"{part[1]}{'+' if part[1] == MOST - 1 else ''} hop{'s' if part[1] > 1 else ''}"
            tier = tiers.get(unit, 0) if kind == "switch" else 0
            one_way = nodes[0] in fold.one_way
            boxes.append(Box(label, kind, len(nodes) * len(names), nodes[0], tier, at, one_way=one_way))
    return boxes, number


def _wires(fold: Fold, boxes: list[Box], number: dict[Place, int]) -> tuple[Wire, ...]:
    """Return what is between the boxes; what is inside of a machine that is one box is left out."""
    found: dict[tuple[int, int, bool], dict[tuple[str, float], list[int]]] = {}
    for link, count in fold.links.items():
        a, b = number[link.tail], number[link.head]
        among = link.outer and link.tail.unit == link.head.unit
        if boxes[a].kind == "machine" and a == b and not among:
            continue
        strands = found.setdefault((min(a, b), max(a, b), among), {})
        strands.setdefault((link.kind, link.bandwidth), [0, 0])[a > b] += count
    return tuple(
        Wire(a, b, tuple(Strand(*sort, *counts) for sort, counts in sorted(strands.items())), among)
        for (a, b, among), strands in sorted(found.items())
    )


def _label(names: list[str]) -> str:
    """Write the name of several nodes: with their numbers where these follow one another, else what they share."""
    first, last = names[0], names[-1]
    base = first.rstrip("0123456789")
    if len(names) == 1:
        return first
    numbers = [name[len(base) :] for name in names if name.startswith(base)]
    if "." not in base[-3:] and numbers == [str(n + int(numbers[0] or 0)) for n in range(len(names))] and numbers[0]:
        return f"{first}–{last[len(base) :]}"
    where = {name.rpartition("/")[0] for name in names}
    return f"{where.pop()}/{stem(first)}" if len(where) == 1 and where != {""} else stem(first)


def _holds(fold: Fold, unit: Unit) -> str:
    """Write what a machine has inside."""
    count = {
        kind: sum(len(nodes) for (k, _), nodes in fold.parts[unit].items() if k == kind) for kind in ("gpu", "nic")
    }
    return ", ".join(f"{n} {kind.upper()}{'s' if n > 1 else ''}" for kind, n in count.items() if n)
