"""What the wires are, as a table: between which rows, how many, how fast each and together."""

from dataclasses import dataclass

from sim.pictures.canvas import Canvas
from sim.pictures.style import LINE, PALE, Scale, text_width
from topologies.drawing.layers import Layout
from topologies.drawing.levels import NAMES
from topologies.drawing.outline import Strand
from topologies.units import format_rate

LINE_HEIGHT, SAMPLE, GAP, SIZE = 0.215, 0.42, 0.2, 8.0
HEADS = ("links, each way", "kind", "count × bandwidth", "together")


@dataclass(frozen=True)
class Entry:
    """Links between two rows of one kind and bandwidth (bytes/s): how many run down and how many up."""

    between: str
    kind: str
    bandwidth: float
    down: int
    up: int

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The texts of its line."""
        number = f"{self.down:,}" if self.down == self.up else f"{self.down:,} down, {self.up:,} up"
        total = format_rate(max(self.down, self.up) * self.bandwidth)
        return self.between, self.kind, f"{number} × {format_rate(self.bandwidth)}", total


def strand_text(strand: Strand) -> str:
    """Write the links of a wire that are alike."""
    ways = "each way" if strand.there == strand.back else f"there, {strand.back:,} back"
    return f"{strand.there:,} × {strand.kind} {format_rate(strand.bandwidth)} {ways}"


def entries(plan: Layout) -> list[Entry]:
    """Return the lines, from the top row down."""
    place: dict[tuple[str, int], int] = {}
    for number, row in enumerate(plan.rows):
        place.setdefault(row.sort, number)
    listed = []
    for total in plan.outline.totals:
        upper, lower = sorted((total.a, total.b), key=lambda sort: place.get(sort, -1))
        down, up = total.strand.there, total.strand.back
        if upper != total.a:
            down, up = up, down
        names = [plan.rows[place[sort]].name if sort in place else NAMES[sort[0]] for sort in (upper, lower)]
        order = (place.get(upper, -1), place.get(lower, -1), -total.strand.bandwidth)
        listed.append((order, Entry(" – ".join(names), total.strand.kind, total.strand.bandwidth, down, up)))
    return [entry for _, entry in sorted(listed, key=lambda item: item[0])]


def _columns(listed: list[Entry]) -> list[float]:
    """Return the width of each column in inches."""
    table = [HEADS, *(entry.cells for entry in listed)]
    return [max(text_width(line[k], SIZE) for line in table) for k in range(len(HEADS))]


def legend_size(listed: list[Entry]) -> tuple[float, float]:
    """Return how wide and how high the table is, in inches."""
    return SAMPLE + GAP / 2 + sum(_columns(listed)) + GAP * (len(HEADS) - 1), (len(listed) + 1.4) * LINE_HEIGHT


def legend(canvas: Canvas, listed: list[Entry], scale: Scale, left: float, top: float) -> None:
    """Put the table."""
    widths = _columns(listed)
    at = [left + SAMPLE + GAP / 2 + sum(widths[:k]) + GAP * k for k in range(len(HEADS))]
    for k, head in enumerate(HEADS):
        _cell(canvas, at[k], widths[k], top + 0.08, head, k, color=PALE)
    canvas.line([(left, top + 0.22), (at[-1] + widths[-1], top + 0.22)], color=LINE, linewidth=0.8)
    for place, entry in enumerate(listed):
        y = top + 0.36 + place * LINE_HEIGHT
        sample = [(left, y - 0.01), (left + SAMPLE, y - 0.01)]
        canvas.line(sample, color=scale.colour(entry.bandwidth), linewidth=scale.width(entry.bandwidth))
        for k, cell in enumerate(entry.cells):
            _cell(canvas, at[k], widths[k], y, cell, k)


def _cell(canvas: Canvas, left: float, width: float, y: float, text: str, column: int, **look: str) -> None:
    """Put a cell of the table, numbers to the right."""
    if column >= 2:
        canvas.text(left + width, y, text, SIZE, ha="right", **look)
    else:
        canvas.text(left, y, text, SIZE, **look)
