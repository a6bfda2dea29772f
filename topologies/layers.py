"""Where the boxes of a topology stand: rows by tier, columns by what is cabled to what, so that most wires are upright.

    spines         =========
    leaves, rails  ===  ===      a box is as wide as what is below it, where there is room
    NICs           # #  # #
    CPUs            #    #       CPUs stand where no other wire passes
    PCIe           ===  ===
    GPUs           # #  # #      in rank order; wires from GPU to GPU hang below as arcs
    NVSwitch       =========

One unit is the pitch of the columns; y grows downwards.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from topologies.fold import stem
from topologies.outline import Box, Outline, Wire, outline

if TYPE_CHECKING:
    import networkx as nx

WIDTH, HEIGHT = 0.84, 0.46  # of a box
MACHINE = 1.45  # width of a machine drawn as one box
ROW = 1.05  # from row to row
GAP = 0.3  # more between GPUs of different PCIe switches or CPUs
BETWEEN = 0.55  # between two machines
PAD = 0.16  # between a machine's frame and its boxes
NAME = 0.14  # more below them, or to the left where wires leave below, for its name
ASIDE = 0.14  # from a CPU to a wire that passes it
DEEPEST = 2.3  # arc
NAMES = {"nvswitch": "NVSwitch", "gpu": "GPU", "pcie": "PCIe switch", "cpu": "CPU", "nic": "NIC", "machine": "machine"}


@dataclass(frozen=True)
class Spot:
    """Where a box stands: its middle, and its size."""

    x: float
    y: float
    width: float = WIDTH
    height: float = HEIGHT

    @property
    def left(self) -> float:
        """The smallest x."""
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        """The largest x."""
        return self.x + self.width / 2

    def apart(self, other: "Spot") -> bool:
        """Tell whether two boxes share no point."""
        across, down = abs(self.x - other.x), abs(self.y - other.y)
        return across >= (self.width + other.width) / 2 or down >= (self.height + other.height) / 2


@dataclass(frozen=True)
class Row:
    """A row: what it is called, the kind and tier of what stands in it, how many there are in all, and its y."""

    name: str
    sort: tuple[str, int]
    nodes: int
    y: float


@dataclass(frozen=True)
class Layout:
    """An outline with a spot for each box and each frame, and its rows from top to bottom.

    arcs: number of a wire between two boxes of a row -> how far it hangs down (above 0) or rises (below 0).
    sideways: whether wires leave the frames below, so that their names stand upright at the left.
    """

    outline: Outline
    spots: tuple[Spot, ...]
    frames: tuple[Spot, ...]
    rows: tuple[Row, ...]
    arcs: dict[int, float]
    sideways: bool


def layout(graph: "nx.DiGraph") -> Layout:
    """Return where everything of a picture of the graph stands."""
    plan = _Plan(outline(graph))
    plan.place()
    return plan.result()


class _Plan:
    """A layout in the making: x by the number of a box, level (row number) by the number of a box."""

    def __init__(self, drawn: Outline) -> None:
        self.drawn = drawn
        self.boxes = drawn.boxes
        self.near: list[list[int]] = [[] for _ in drawn.boxes]
        for wire in drawn.wires:
            if wire.a != wire.b:
                self.near[wire.a].append(wire.b)
                self.near[wire.b].append(wire.a)
        self.level = _levels(self.boxes, self.near)
        self.x: dict[int, float] = {}
        self.width = dict.fromkeys(range(len(self.boxes)), WIDTH)
        self.sideways = any(box.kind == "nvswitch" and box.frame < 0 for box in self.boxes)

    def place(self) -> None:
        """Give every box an x."""
        groups: dict[object, list[int]] = {}
        for number, box in enumerate(self.boxes):
            if box.frame >= 0 or box.kind in ("gpu", "machine"):
                groups.setdefault(box.frame if box.frame >= 0 else ("alone", number), []).append(number)
        start = 0.0
        for group in groups.values():
            start = self._machine(group, start)
        rest = [n for n in range(len(self.boxes)) if n not in self.x]
        for level in sorted({self.level[n] for n in rest}, key=self._distance):
            self._row([n for n in rest if self.level[n] == level])

    def _distance(self, level: int) -> tuple[int, int]:
        """How far a row is from the machines."""
        machines = {self.level[n] for n in self.x}
        return min((abs(level - m) for m in machines), default=0), level

    def _machine(self, group: list[int], start: float) -> float:
        """Place what is in a machine, from x = start; return where the next may start."""
        of = {kind: [n for n in group if self.boxes[n].kind == kind] for kind in NAMES}
        if of["machine"]:
            self.width[group[0]] = MACHINE
        x = start
        for before, gpu in zip([None, *of["gpu"]], of["gpu"] + of["machine"], strict=False):
            x += self._gap(before, gpu) if before is not None else 0.0
            self.x[gpu] = x
        on_cpu = any(all(self.boxes[o].kind in ("cpu", "switch") for o in self.near[n]) for n in of["nic"])
        for kind in ("pcie", "nvswitch", *(("cpu", "nic") if on_cpu else ("nic", "cpu"))):
            for level in sorted({self.level[n] for n in of[kind]}, reverse=True):
                self._row([n for n in of[kind] if self.level[n] == level])
        left = min(self.x[n] - self.width[n] / 2 for n in group)
        for n in group:
            self.x[n] += start - left
        is_single = len(group) == 1 and self.boxes[group[0]].kind == "gpu"
        named = NAME if self.sideways else 0.0
        return max(self.x[n] + self.width[n] / 2 for n in group) + (1 - WIDTH if is_single else BETWEEN + named)

    def _gap(self, a: int, b: int) -> float:
        """From GPU a to the next, b: more where they share no PCIe switch and no CPU."""
        hubs = [{o for o in self.near[n] if self.boxes[o].kind in ("pcie", "cpu")} for n in (a, b)]
        return 1 + (GAP if all(hubs) and not hubs[0] & hubs[1] else 0.0)

    def _row(self, row: list[int]) -> None:
        """Place the boxes of a row near what they are cabled to, side by side, and stretch them over what is below."""
        wanted = {n: self._wanted(n) for n in row}
        row = sorted(row, key=lambda n: (wanted[n], n))
        dodge = any(self.boxes[n].kind == "cpu" and list(self._passing(n)) for n in row)
        if not dodge:
            self._stretch(row)
        for n, x in zip(row, spread([wanted[n] for n in row], [self.width[n] + 1 - WIDTH for n in row]), strict=True):
            self.x[n] = x
        if dodge:
            self._dodge(row)

    def _wanted(self, n: int) -> float:
        """Where a box would best stand: in the middle of what it is cabled to."""
        spans = [(self.x[o] - self.width[o] / 2, self.x[o] + self.width[o] / 2) for o in self._placed(n)]
        if not spans:
            return max(self.x.values(), default=0.0)
        return (min(left for left, _ in spans) + max(right for _, right in spans)) / 2

    def _placed(self, n: int) -> list[int]:
        """What a box is cabled to and that has its place; a switch's neighbours towards the machines, if there are."""
        placed = [o for o in self.near[n] if o in self.x and self.level[o] != self.level[n]]
        if self.boxes[n].kind in ("switch", "pcie", "cpu"):
            return [o for o in placed if self.level[o] > self.level[n]] or placed
        return placed

    def _stretch(self, row: Sequence[int]) -> None:
        """Make hubs as wide as what is below them, if all of the row have room for it."""
        if not row or self.boxes[row[0]].kind not in ("switch", "pcie", "nvswitch", "cpu"):
            return
        spans = []
        for n in row:
            ends = [(self.x[o] - self.width[o] / 2, self.x[o] + self.width[o] / 2) for o in self._placed(n)]
            if not ends:
                return
            spans.append((min(left for left, _ in ends), max(right for _, right in ends)))
        if all(a[1] < b[0] for a, b in pairwise(spans)):
            for n, (left, right) in zip(row, spans, strict=True):
                self.width[n] = max(WIDTH, right - left)

    def _dodge(self, row: Sequence[int]) -> None:
        """Move boxes aside from wires that would pass behind them."""
        for place, n in enumerate(row):
            wires = list(self._passing(n))
            least = self.x[row[place - 1]] + 1 if place else -1e9
            half = WIDTH / 2 + ASIDE
            edges = [x + side * half for x in wires for side in (-1, 1)]
            fits = [
                x
                for x in sorted([self.x[n], *edges], key=lambda x: abs(x - self.x[n]))
                if x >= least and all(abs(x - wire) >= half - 1e-9 for wire in wires)
            ]
            self.x[n] = fits[0] if fits and abs(fits[0] - self.x[n]) < 1.5 else max(self.x[n], least)

    def _passing(self, n: int) -> Iterable[float]:
        """Yield the x at which wires between boxes above and below a row pass it, all upright or nearly so."""
        for wire in self.drawn.wires:
            if {wire.a, wire.b} <= self.x.keys():
                upper, lower = sorted((wire.a, wire.b), key=self.level.__getitem__)
                if self.level[upper] < self.level[n] < self.level[lower] and n not in (upper, lower):
                    yield self.x[upper] if self.width[upper] <= self.width[lower] else self.x[lower]

    def result(self) -> Layout:
        """Return the finished layout."""
        levels = sorted({level for n, level in self.level.items() if self.boxes[n].kind != "machine"})
        y, rows, at = 0.0, [], {}
        arcs = self._arcs()
        for level in levels:
            inside = [n for n, own in self.level.items() if own == level and self.boxes[n].kind != "machine"]
            rise = -min((arcs[w] for w in arcs if self.drawn.wires[w].a in inside), default=0.0)
            y += max(0.0, rise - 0.35)
            at[level] = y
            rows.append(Row(*self._named(inside), y))
            hang = max((arcs[w] for w in arcs if self.drawn.wires[w].a in inside), default=0.0)
            y += ROW + max(0.0, hang - 0.35)
        spots = {n: Spot(self.x[n], at[self.level[n]], self.width[n]) for n in self.x if self.level[n] in at}
        frames = [self._frame(number, spots) for number in range(len(self.drawn.frames))]
        for n, box in enumerate(self.boxes):
            if box.kind == "machine":
                ref = frames[0] if frames else Spot(0.0, y)
                spots[n] = Spot(self.x[n], ref.y, self.width[n], ref.height if frames else HEIGHT * 2)
        placed = tuple(spots[n] for n in range(len(self.boxes)))
        return Layout(self.drawn, placed, tuple(frames), tuple(rows), arcs, self.sideways)

    def _named(self, inside: Sequence[int]) -> tuple[str, tuple[str, int], int]:
        """Return what a row is called, the kind and tier of its nodes, and how many there are in the graph."""
        box = self.boxes[inside[0]]
        sort = box.kind, box.tier
        levels = {self.level[n] for n, other in enumerate(self.boxes) if other.kind == box.kind}
        is_part = box.kind == "pcie" and len(levels) > 1  # one of the rows of a PCIe tree
        nodes = sum(self.boxes[n].nodes for n in inside) if is_part else self.drawn.nodes[sort]
        return _row_name(self.boxes[n] for n in inside), sort, nodes

    def _frame(self, number: int, spots: dict[int, Spot]) -> Spot:
        """Return the frame around the boxes of a machine, with room for its name at the top."""
        own = [spots[n] for n, box in enumerate(self.boxes) if box.frame == number]
        left, right = min(s.left for s in own) - PAD, max(s.right for s in own) + PAD
        top, bottom = min(s.y - s.height / 2 for s in own) - PAD, max(s.y + s.height / 2 for s in own) + PAD
        left, bottom = (left - NAME, bottom) if self.sideways else (left, bottom + NAME)
        numbers = {n for n, box in enumerate(self.boxes) if box.frame == number}
        hangs = [h for w, h in self._arcs().items() if self.drawn.wires[w].a in numbers and h > 0]
        if hangs and max(s.y for s in own) == max(spots[n].y for n in numbers if self.boxes[n].kind == "gpu"):
            bottom += max(hangs) + 0.02
        return Spot((left + right) / 2, (top + bottom) / 2, right - left, bottom - top)

    def _arcs(self) -> dict[int, float]:
        """Return the wires of a row that need an arc: GPUs' hang, others rise where a box is between their ends."""
        arcs = {}
        for number, wire in enumerate(self.drawn.wires):
            if wire.a == wire.b or self.level[wire.a] != self.level[wire.b]:
                continue
            far = abs(self.x[wire.a] - self.x[wire.b])
            if self.boxes[wire.a].kind == "gpu":
                arcs[number] = min(DEEPEST, 0.22 + 0.26 * far)
            elif any(self._is_between(n, wire) for n in self.x):
                arcs[number] = -min(DEEPEST, 0.2 + 0.14 * far)
        return arcs

    def _is_between(self, n: int, wire: Wire) -> bool:
        """Tell whether a box stands between two of its row."""
        left, right = sorted((self.x[wire.a], self.x[wire.b]))
        return self.level[n] == self.level[wire.a] and left < self.x[n] < right and n not in (wire.a, wire.b)


def spread(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Return places near those wanted, in their order and so that boxes of these widths do not overlap.

    The sum of squares of how far they are moved is the least (pool adjacent violators).

    Args:
        wanted: of the middle of each box, sorted.
    """
    offsets: list[float] = []
    total = 0.0
    for before, width in zip([0.0, *widths], widths, strict=False):
        total += (before + width) / 2 if offsets else 0.0
        offsets.append(total)
    pools: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=True):
        mean, count = want - offset, 1
        while pools and pools[-1][0] >= mean:
            other, more = pools.pop()
            mean, count = (mean * count + other * more) / (count + more), count + more
        pools.append((mean, count))
    means = [mean for mean, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _levels(boxes: Sequence[Box], near: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the row of each box, top to bottom in the order of the module's picture."""
    depth = _hops(boxes, near, "cpu")  # a PCIe tree hangs from its CPU; where none is shown, it stands on its devices
    above = {n: -hops for kind in ("gpu", "nic") for n, hops in _hops(boxes, near, kind).items()}
    depth = above | depth
    base = {"nic": 1000, "cpu": 2000, "pcie": 3500, "gpu": 4000, "machine": 4000, "nvswitch": 5000, "switch": 900}
    return {n: base[box.kind] + (-box.tier if box.kind == "switch" else depth.get(n, 0)) for n, box in enumerate(boxes)}


def _hops(boxes: Sequence[Box], near: Sequence[Sequence[int]], kind: str) -> dict[int, int]:
    """Return PCIe switch -> how many PCIe links it is from the nearest box of a kind; only those that reach one."""
    ring = [n for n, box in enumerate(boxes) if box.kind == kind]
    found: dict[int, int] = {}
    while ring:
        steps = found[ring[0]] + 1 if ring[0] in found else 1
        ring = sorted({o for n in ring for o in near[n] if boxes[o].kind == "pcie" and o not in found})
        found |= dict.fromkeys(ring, steps)
    return found


def _row_name(boxes: Iterable[Box]) -> str:
    """Return what a row is called: the switches' own name, if they have one."""
    found = list(boxes)
    if found[0].kind != "switch":
        return NAMES[found[0].kind]
    stems = {stem(box.label) for box in found}
    return stems.pop() if len(stems) == 1 and stems != {"switch"} else "switch"
