"""The drawing: boxes and wires of a layout, what the wires are, and the heat map, on one page."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure

from sim.pictures import Picture
from sim.pictures.canvas import Canvas, Point
from sim.pictures.heat import heat_map, heat_size
from sim.pictures.legend import entries, legend, legend_size, strand_text
from sim.pictures.style import FILL, GROUND, INK, LINE, PALE, Scale, fitted
from topologies.drawing.layers import Layout, Spot
from topologies.drawing.outline import Box, Wire
from topologies.units import format_rate

COLUMN, ROW = 0.82, 0.86  # inches of a unit of the layout, across and down
LEFT, RIGHT, TOP, BOTTOM = 1.35, 0.35, 0.95, 0.25  # margins in inches
BETWEEN = 0.45  # from the drawing to what is below it, and between the table and the heat map
SIDE_BY_SIDE = 0.07  # inches between strands of one wire
PORTS = 0.74  # of a box's width, along which arcs end


def draw(picture: Picture) -> tuple[Figure, dict[str, str]]:
    """Return the figure, and the tips of its shapes by their ids."""
    plan = picture.layout
    edges = [*plan.spots, *plan.frames]
    left, right = min(s.left for s in edges), max(s.right for s in edges)
    arcs = {plan.outline.wires[number].a: depth for number, depth in sorted(plan.arcs.items(), key=lambda arc: -arc[1])}
    rises = [plan.spots[n].y - plan.spots[n].height / 2 + depth for n, depth in arcs.items() if depth < 0]
    top, bottom = min([*(s.y - s.height / 2 for s in edges), *rises]), max(s.y + s.height / 2 for s in edges)
    bottom = max(bottom, *(plan.rows[-1].y + 0.3 + hang for hang in (0, *plan.arcs.values())))
    listed = entries(plan)
    table, heat = legend_size(listed), heat_size(picture.pairs)
    width = max(LEFT + (right - left) * COLUMN + RIGHT, 0.35 + table[0] + BETWEEN + heat[0] + RIGHT)
    below = TOP + (bottom - top) * ROW + BETWEEN
    canvas = Canvas(width, below + max(table[1], heat[1]) + BOTTOM)
    scale = Scale([strand.bandwidth for wire in plan.outline.wires for strand in wire.strands] or [1.0])
    shift = (width - LEFT - RIGHT - (right - left) * COLUMN) / 2
    _Diagram(canvas, plan, scale, LEFT + shift - left * COLUMN, TOP - top * ROW).draw()
    _title(canvas, picture, width)
    canvas.line([(0.35, below - 0.22), (width - RIGHT, below - 0.22)], color=LINE, linewidth=0.8)
    legend(canvas, listed, scale, 0.35, below)
    heat_map(canvas, picture.pairs, scale, min(width - RIGHT - heat[0], 0.35 + table[0] + 3 * BETWEEN), below)
    return canvas.figure, canvas.tips


def _title(canvas: Canvas, picture: Picture, width: float) -> None:
    """Write what it is, and its bisection bandwidth."""
    text, size = fitted(picture.name, 13, width - 0.7, least=8)
    canvas.text(0.35, 0.32, text, size, weight="bold")
    about = f"{picture.gpus:,} GPU{'s' if picture.gpus > 1 else ''}"
    if picture.bisection:
        both = picture.bisection
        ways = f"{format_rate(both.up)} each way"
        if both.up != both.down:
            ways = f"{format_rate(both.up)} from the lower ranks, {format_rate(both.down)} from the upper"
        about += f"; bisection {ways} ({both.how})"
    text, size = fitted(about, 9, width - 0.7)
    canvas.text(0.35, 0.58, text, size, color=PALE)


def _small(box: Box) -> Iterator[str]:
    """Yield what stands below the name of a box."""
    if box.nodes > 1:
        yield f"× {box.nodes:,}"
    if box.one_way:
        yield "no peer-to-peer"


class _Diagram:
    """A layout on a canvas, its origin at (x, y) inches."""

    def __init__(self, canvas: Canvas, plan: Layout, scale: Scale, x: float, y: float) -> None:
        self.canvas, self.plan, self.scale = canvas, plan, scale
        self.boxes = plan.outline.boxes
        self.x, self.y = x, y
        self.crowd: Counter[int] = Counter(
            n for w in plan.arcs for n in (plan.outline.wires[w].a, plan.outline.wires[w].b)
        )
        self.ports = self._ports()

    def at(self, x: float, y: float) -> Point:
        """Return where a point of the layout is, in inches."""
        return self.x + x * COLUMN, self.y + y * ROW

    def draw(self) -> None:
        """Put frames, wires, boxes and the names of rows."""
        for spot, frame in zip(self.plan.frames, self.plan.outline.frames, strict=True):
            alike = f"  × {frame.count:,} alike" if frame.count > 1 else ""
            self._frame(spot, f"{frame.name}{alike}")
        for number, wire in enumerate(self.plan.outline.wires):
            self._wire(number, wire)
        for box, spot in zip(self.boxes, self.plan.spots, strict=True):
            self._box(box, spot)
        for row in self.plan.rows:
            _, y = self.at(0, row.y)
            name, size = fitted(row.name, 9, LEFT - 0.5)
            self.canvas.text(0.35, y - 0.07, name, size, weight="bold", color=PALE)
            self.canvas.text(0.35, y + 0.1, f"{row.nodes:,} in all", 7, color=PALE)

    def _frame(self, spot: Spot, name: str) -> None:
        left, top = self.at(spot.left, spot.y - spot.height / 2)
        width, height = spot.width * COLUMN, spot.height * ROW
        self.canvas.box(left, top, width, height, facecolor=GROUND, edgecolor=LINE, linewidth=1, zorder=0)
        if self.plan.sideways:
            text, size = fitted(name, 7.5, height - 0.12)
            self.canvas.text(
                left + 0.12, top + height / 2, text, size, color=PALE, rotation=90, ha="center", va="center"
            )
        else:
            text, size = fitted(name, 7.5, width - 0.12)
            self.canvas.text(left + 0.06, top + height - 0.1, text, size, color=PALE)

    def _box(self, box: Box, spot: Spot) -> None:
        left, top = self.at(spot.left, spot.y - spot.height / 2)
        width, height = spot.width * COLUMN, spot.height * ROW
        fill, edge = FILL[box.kind]
        tip = f"{box.first} ({box.kind})" if box.nodes == 1 else f"{box.nodes:,} x {box.kind}, as {box.first}"
        tip += f": {box.holds}" if box.holds else ""
        tip += "; no way through but to the CPU" if box.one_way else ""
        self.canvas.box(left, top, width, height, tip, facecolor=fill, edgecolor=edge, linewidth=1.1, zorder=4)
        lines = [box.label]
        lines += [", ".join(_small(box))] if list(_small(box)) else []
        lines += box.holds.split(", ") if box.holds else []
        middle = self.at(spot.x, spot.y)
        for place, line in enumerate(lines):
            text, size = fitted(line, 8 if place == 0 else 7, width - 0.08)
            y = middle[1] + (place - (len(lines) - 1) / 2) * 0.155
            self.canvas.text(middle[0], y, text, size, ha="center", color=INK if place == 0 else edge)

    def _wire(self, number: int, wire: Wire) -> None:
        tip = f"{self.boxes[wire.a].label} – {self.boxes[wire.b].label}: "
        tip += "; ".join(strand_text(strand) for strand in wire.strands) + (" among those alike" if wire.among else "")
        for place, strand in enumerate(wire.strands):
            look = {
                "color": self.scale.colour(strand.bandwidth),
                "linewidth": self.scale.width(strand.bandwidth),
                "zorder": 2 + 0.5 * self.scale.at(strand.bandwidth),
            }
            shift = (place - (len(wire.strands) - 1) / 2) * SIDE_BY_SIDE
            if wire.among or wire.a == wire.b:
                for end in {wire.a, wire.b}:
                    self._loop(self.plan.spots[end], tip, look)
            elif number in self.plan.arcs:
                self._arc(number, wire, shift, tip, look)
            else:
                a, b = self._ends(self.plan.spots[wire.a], self.plan.spots[wire.b])
                self.canvas.line([(a[0] + shift, a[1]), (b[0] + shift, b[1])], tip, **look)

    def _loop(self, spot: Spot, tip: str, look: dict[str, Any]) -> None:
        """Put an ear on a box: links among those that it stands for."""
        x, y = self.at(spot.right, spot.y - spot.height / 2)
        self.canvas.curve((x - 0.34, y), (x - 0.1, y), -0.16, tip, **look)

    def _arc(self, number: int, wire: Wire, shift: float, tip: str, look: dict[str, Any]) -> None:
        """Put an arc, thin enough that those of a box stay apart."""
        depth = self.plan.arcs[number]
        side = 1 if depth > 0 else -1
        ends, room = [], 2 * look["linewidth"]
        for n in (wire.a, wire.b):
            x, y = self.at(self.plan.spots[n].x, self.plan.spots[n].y + side * self.plan.spots[n].height / 2)
            room = min(room, 72 * self.plan.spots[n].width * COLUMN * PORTS / self.crowd[n])
            ends.append((x + self.ports[number, n] * self.plan.spots[n].width * COLUMN + shift, y))
        self.canvas.curve(ends[0], ends[1], depth * ROW, tip, **look | {"linewidth": min(look["linewidth"], room / 2)})

    def _ends(self, a: Spot, b: Spot) -> tuple[Point, Point]:
        """Return where a straight wire ends: upright where one box is above the other."""
        if abs(a.y - b.y) < (a.height + b.height) / 2:  # side by side
            left, right = sorted((a, b), key=lambda s: s.x)
            return self.at(left.right, left.y), self.at(right.left, right.y)
        upper, lower = sorted((a, b), key=lambda s: s.y)
        inset = 0.12
        reach = [(s.left + inset, s.right - inset) for s in (upper, lower)]
        narrow = upper if upper.width < lower.width else lower
        x = [min(max(narrow.x, low), high) for low, high in reach]
        if x[0] != x[1]:
            x = [min(max(other.x, low), high) for other, (low, high) in zip((lower, upper), reach, strict=True)]
        return self.at(x[0], upper.y + upper.height / 2), self.at(x[1], lower.y - lower.height / 2)

    def _ports(self) -> dict[tuple[int, int], float]:
        """Return (wire, box) -> where along the box an arc ends, from -1/2 to 1/2, so that its arcs do not cross."""
        at: dict[int, list[tuple[int, float, int]]] = {}
        for number in self.plan.arcs:
            wire = self.plan.outline.wires[number]
            for n, other in ((wire.a, wire.b), (wire.b, wire.a)):
                far = self.plan.spots[other].x - self.plan.spots[n].x
                at.setdefault(n, []).append((1 if far > 0 else -1, -far, number))
        ports = {}
        for n, arcs in at.items():
            order = sorted(arcs, key=lambda arc: (arc[0], arc[1]))
            for place, (_, _, number) in enumerate(order):
                ports[number, n] = PORTS * ((place + 0.5) / len(order) - 0.5)
        return ports
