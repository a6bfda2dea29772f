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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topologies.drawing.columns import NAME, WIDTH, Columns
from topologies.drawing.levels import row_name
from topologies.drawing.outline import Outline, Wire, outline

if TYPE_CHECKING:
    import networkx as nx

HEIGHT = 0.46  # of a box
ROW = 1.05  # from row to row
PAD = 0.16  # between a machine's frame and its boxes, and NAME more where its name stands
DEEPEST = 2.3  # arc


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
    return _Rows(outline(graph)).layout()


class _Rows:
    """The rows of an outline whose boxes have their columns."""

    def __init__(self, drawn: Outline) -> None:
        placed = Columns(drawn)
        self.outline, self.boxes, self.sideways = drawn, placed.boxes, placed.sideways
        self.level, self.x, self.width = placed.level, placed.x, placed.width
        self.arcs = self._arcs()

    def layout(self) -> Layout:
        """Return the finished layout."""
        levels = sorted({level for n, level in self.level.items() if self.boxes[n].kind != "machine"})
        y, rows, at = 0.0, [], {}
        for level in levels:
            inside = [n for n, own in self.level.items() if own == level and self.boxes[n].kind != "machine"]
            rise = -min((self.arcs[w] for w in self.arcs if self.outline.wires[w].a in inside), default=0.0)
            y += max(0.0, rise - 0.35)
            at[level] = y
            rows.append(Row(*self._named(inside), y))
            hang = max((self.arcs[w] for w in self.arcs if self.outline.wires[w].a in inside), default=0.0)
            y += ROW + max(0.0, hang - 0.35)
        spots = {n: Spot(self.x[n], at[self.level[n]], self.width[n]) for n in self.x if self.level[n] in at}
        frames = [self._frame(number, spots) for number in range(len(self.outline.frames))]
        for n, box in enumerate(self.boxes):
            if box.kind == "machine":
                ref = frames[0] if frames else Spot(0.0, y)
                spots[n] = Spot(self.x[n], ref.y, self.width[n], ref.height if frames else HEIGHT * 2)
        placed = tuple(spots[n] for n in range(len(self.boxes)))
        return Layout(self.outline, placed, tuple(frames), tuple(rows), self.arcs, self.sideways)

    def _named(self, inside: Sequence[int]) -> tuple[str, tuple[str, int], int]:
        """Return what a row is called, the kind and tier of its nodes, and how many there are in the graph."""
        box = self.boxes[inside[0]]
        sort = box.kind, box.tier
        levels = {self.level[n] for n, other in enumerate(self.boxes) if other.kind == box.kind}
        is_part = box.kind == "pcie" and len(levels) > 1  # one of the rows of a PCIe tree
        nodes = sum(self.boxes[n].nodes for n in inside) if is_part else self.outline.nodes[sort]
        return row_name(self.boxes[n] for n in inside), sort, nodes

    def _frame(self, number: int, spots: dict[int, Spot]) -> Spot:
        """Return the frame around the boxes of a machine, with room for its name at the top."""
        own = [spots[n] for n, box in enumerate(self.boxes) if box.frame == number]
        left, right = min(s.left for s in own) - PAD, max(s.right for s in own) + PAD
        top, bottom = min(s.y - s.height / 2 for s in own) - PAD, max(s.y + s.height / 2 for s in own) + PAD
        left, bottom = (left - NAME, bottom) if self.sideways else (left, bottom + NAME)
        numbers = {n for n, box in enumerate(self.boxes) if box.frame == number}
        hangs = [h for w, h in self.arcs.items() if self.outline.wires[w].a in numbers and h > 0]
        if hangs and max(s.y for s in own) == max(spots[n].y for n in numbers if self.boxes[n].kind == "gpu"):
            bottom += max(hangs) + 0.02
        return Spot((left + right) / 2, (top + bottom) / 2, right - left, bottom - top)

    def _arcs(self) -> dict[int, float]:
        """Return the wires of a row that need an arc: GPUs' hang, others rise where a box is between their ends."""
        arcs = {}
        for number, wire in enumerate(self.outline.wires):
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
