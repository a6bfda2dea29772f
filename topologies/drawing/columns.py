"""Where the boxes of a picture stand across: near what they are cabled to, side by side, machine after machine."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from topologies.drawing.levels import NAMES, levels
from topologies.drawing.outline import Outline

WIDTH = 0.84  # of a box; one unit is the pitch of the columns
MACHINE = 1.45  # width of a machine drawn as one box
GAP = 0.3  # more between GPUs of different PCIe switches or CPUs
BETWEEN = 0.55  # between two machines
NAME = 0.14  # between two machines whose names stand at their left, more
ASIDE = 0.14  # from a CPU to a wire that passes it


class Columns:
    """The columns of an outline.

    Attributes:
        boxes: of the outline. near: [boxes] the boxes that each is cabled to.
        level: number of a box -> its level. x, width: number of a box -> its middle, and how wide it is.
        sideways: whether wires leave the machines below, so that their names stand upright at the left.
    """

    def __init__(self, drawn: Outline) -> None:
        self.wires = drawn.wires
        self.boxes = drawn.boxes
        self.near: list[list[int]] = [[] for _ in drawn.boxes]
        for wire in drawn.wires:
            if wire.a != wire.b:
                self.near[wire.a].append(wire.b)
                self.near[wire.b].append(wire.a)
        self.level = levels(self.boxes, self.near)
        self.x: dict[int, float] = {}
        self.width = dict.fromkeys(range(len(self.boxes)), WIDTH)
        self.sideways = any(box.kind == "nvswitch" and box.frame < 0 for box in self.boxes)
        self._place()

    def _place(self) -> None:
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
        for wire in self.wires:
            if {wire.a, wire.b} <= self.x.keys():
                upper, lower = sorted((wire.a, wire.b), key=self.level.__getitem__)
                if self.level[upper] < self.level[n] < self.level[lower] and n not in (upper, lower):
                    yield self.x[upper] if self.width[upper] <= self.width[lower] else self.x[lower]


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
