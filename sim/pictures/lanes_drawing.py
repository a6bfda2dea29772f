"""The drawing of lanes: two runs on one axis of time, colours by kind of op, and what the kinds add up to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import floor, log10

from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from sim.beside import Row
from sim.pictures.canvas import Canvas
from sim.pictures.lanes import Lane, Lanes, Run, Span
from sim.pictures.style import GROUND, INK, LINE, PALE, fitted, text_width
from topologies.units import format_seconds

LEFT, RIGHT, TOP, BOTTOM = 1.55, 0.5, 0.95, 0.3  # margins in inches
ACROSS = 9.6  # inches of the axis
LANE, GAP, BETWEEN, HEAD = 0.19, 0.09, 0.42, 0.27  # inches: a lane, between ranks, between runs, above a run
AXIS, ROW = 0.36, 0.2  # inches: below the lanes, and a line of the table
LEAST = 0.008  # inches: what is narrower is drawn as wide, and once
POSTED = 0.2  # how much of its colour an op has before its rank waits for it
WAITS = "#b4bac4"
COLOURS = {
    "attend": "#3b6fb6",
    "attend_backward": "#24427c",
    "merge": "#cf4a5c",
    "delta": "#8a5a9e",
    "permute": "#279488",
    "all_gather": "#6ba352",
    "reduce_scatter": "#e3962b",
    "all_reduce": "#b9731c",
    "all_to_all": "#d96f36",
    "broadcast": "#a39a3a",
}
UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
OTHERS = ("#7d6b5d", "#a58b5b", "#c77f8b", "#5f7f95", "#9b6fa8", "#84748f")


def draw(lanes: Lanes) -> tuple[Figure, dict[str, str]]:
    """Return the figure, and the tips of its shapes by their ids."""
    width = LEFT + ACROSS + RIGHT
    heights = [_height(run.lanes) for run in lanes.runs]
    table = (len(lanes.rows) + 1 + lanes.posts) * ROW
    canvas = Canvas(width, TOP + sum(heights) + 2 * HEAD + BETWEEN + AXIS + table + BOTTOM)
    _Drawing(canvas, lanes).draw(heights)
    return canvas.figure, canvas.tips


def _height(lanes: Sequence[Lane]) -> float:
    return len(lanes) * LANE + (len({lane.rank for lane in lanes}) - 1) * GAP


def _tint(colour: str) -> str:
    red, green, blue = (1 - POSTED * (1 - x) for x in to_rgb(colour))
    return str(to_hex((red, green, blue)))


class _Drawing:
    def __init__(self, canvas: Canvas, lanes: Lanes) -> None:
        self.canvas, self.lanes = canvas, lanes
        self.longest = max([run.seconds for run in lanes.runs] + [run.band[1] for run in lanes.runs if run.band])
        others = dict.fromkeys(row.kind for row in lanes.rows if row.ops and row.kind not in COLOURS)
        self.colours = COLOURS | {kind: OTHERS[k % len(OTHERS)] for k, kind in enumerate(others)}

    def x(self, seconds: float) -> float:
        """Where a time is, in inches."""
        return LEFT + ACROSS * seconds / self.longest

    def draw(self, heights: Sequence[float]) -> None:
        """Put the title, the runs, their axis and the table."""
        self.title()
        y = TOP
        for place, (run, height) in enumerate(zip(self.lanes.runs, heights, strict=True)):
            self.run(run, y, height)
            for seconds, _ in _ticks(self.longest):
                at = self.x(seconds)
                line = [(at, y + HEAD - 0.03), (at, y + HEAD + height + 0.03)]
                self.canvas.line(line, color=LINE, linewidth=0.5, zorder=0.5)
            y += HEAD + height + (BETWEEN if place == 0 else 0)
        self.axis(y)
        self.table(y + AXIS + 0.1)

    def title(self) -> None:
        room = LEFT + ACROSS - 0.35
        text, size = fitted(self.lanes.title, 13, room, least=8)
        self.canvas.text(0.35, 0.32, text, size, weight="bold")
        for line, y in ((self.lanes.about, 0.57), (self.lanes.kept, 0.75)):
            text, size = fitted(line, 8.5, room)
            self.canvas.text(0.35, y, text, size, color=PALE)

    def run(self, run: Run, top: float, height: float) -> None:
        """Put a run: its title, its lanes, and where it ends."""
        self.canvas.text(0.35, top + 0.1, run.title, 10, weight="bold")
        y = top + HEAD
        if run.band:
            self.band(*run.band, y + height + 0.07)
        for rank, group in groupby(run.lanes, key=lambda lane: lane.rank):
            same = list(group)
            self.canvas.text(0.35, y + len(same) * LANE / 2, f"rank {rank}", 8, color=INK)
            for lane in same:
                name, size = fitted(lane.stream, 7, LEFT - 0.95)
                self.canvas.text(LEFT - 0.08, y + LANE / 2, name, size, ha="right", color=PALE)
                self.lane(lane, y)
                y += LANE
            y += GAP
        at, bottom = self.x(run.seconds), y - GAP
        self.canvas.line([(at, top + HEAD - 0.05), (at, bottom + 0.05)], color=INK, linewidth=1.1, zorder=5)
        text = format_seconds(run.seconds)
        side = at + text_width(text, 8) / 2 <= LEFT + ACROSS + RIGHT - 0.05
        self.canvas.text(at, top + 0.1, text, 8, ha="center" if side else "right", weight="bold")

    def lane(self, lane: Lane, y: float) -> None:
        """Put the ops of a lane; of many that are too narrow to be seen apart, one."""
        self.canvas.cell(LEFT, y + 0.015, ACROSS, LANE - 0.03, facecolor=GROUND, edgecolor="none", zorder=0)
        seen: set[tuple[str, int]] = set()
        for span in lane.spans:
            left, right = self.x(span.start), self.x(span.end)
            if right - left < LEAST:
                if (spot := (span.kind, int(left / LEAST))) in seen:
                    continue
                seen.add(spot)
            self.span(span, lane.rank, y, left, max(right, left + LEAST))

    def band(self, low: float, high: float, y: float) -> None:
        """Put the times that one run in ten is below, and above."""
        left, right = self.x(low), self.x(high)
        tip = f"p10 {format_seconds(low)} to p90 {format_seconds(high)} of all runs"
        self.canvas.line([(left, y), (right, y)], tip, color=INK, linewidth=1.1)
        for at in (left, right):
            self.canvas.line([(at, y - 0.04), (at, y + 0.04)], color=INK, linewidth=1.1)
        self.canvas.text(left - 0.06, y, "p10 to p90", 6.5, ha="right", color=PALE)

    def span(self, span: Span, rank: int, y: float, left: float, right: float) -> None:
        """Put an op: pale while it is posted, grey while its rank waits for others, then in its colour."""
        colour = self.colours.get(span.kind, PALE)
        on = max(left, min(self.x(span.goes_on), right - LEAST))
        waited = min(on, max(left, self.x(span.waited)))
        tip = f"{span.name} on rank {rank}: {format_seconds(span.start)} to {format_seconds(span.end)}, "
        tip += f"{format_seconds(span.end - span.goes_on)} itself"
        if span.goes_on > span.waited:
            tip += f", waits {format_seconds(span.goes_on - span.waited)}"
        parts = (left, waited, _tint(colour)), (waited, on, WAITS), (on, right, colour)
        for above, (a, b, look) in enumerate(parts, 1):  # what is posted does not hide what is under way
            if b - a > LEAST / 2:
                self.canvas.cell(a, y + 0.02, b - a, LANE - 0.04, tip, facecolor=look, edgecolor="none", zorder=above)
        if right - on > 0.03:  # so that neighbours of one kind are told apart
            edge = [(right, y + 0.02), (right, y + LANE - 0.02)]
            self.canvas.line(edge, color="white", linewidth=0.6, zorder=4)
        if text_width(span.kind, 6.5) < right - on - 0.1:
            self.canvas.text((on + right) / 2, y + LANE / 2, span.kind, 6.5, ha="center", color="white")

    def axis(self, bottom: float) -> None:
        """Put the axis of time, which both runs share."""
        self.canvas.line([(LEFT, bottom + 0.07), (LEFT + ACROSS, bottom + 0.07)], color=LINE, linewidth=0.8)
        for seconds, text in _ticks(self.longest):
            at = self.x(seconds)
            self.canvas.line([(at, bottom + 0.07), (at, bottom + 0.12)], color=LINE, linewidth=0.8)
            self.canvas.text(at, bottom + 0.22, text, 7.5, ha="center", color=PALE)

    def table(self, top: float) -> None:
        """Put the legend: the kinds, and the seconds that they add up to."""
        heads = ("measured", "share") + (("predicted", "share", "ratio") if self.lanes.predicted else ())
        columns = [3.9 + 0.95 * k for k in range(len(heads))]
        self.canvas.text(0.35, top, "ops themselves, the mean of the ranks", 8, color=PALE)
        for at, head in zip(columns, heads, strict=True):
            self.canvas.text(at, top, head, 8, ha="right", color=PALE)
        self.canvas.line([(0.35, top + 0.13), (columns[-1], top + 0.13)], color=LINE, linewidth=0.8)
        for place, row in enumerate(self.lanes.rows, 1):
            y = top + 0.07 + place * ROW
            colour = self.colours.get(row.kind, PALE) if row.ops else WAITS
            self.canvas.cell(0.35, y - 0.055, 0.16, 0.11, facecolor=colour, edgecolor="none")
            text, size = fitted(f"{row.kind}{f' × {row.ops} ({row.stream})' if row.ops else ''}", 8, 2.4)
            self.canvas.text(0.6, y, text, size)
            for at, cell in zip(columns, self.cells(row), strict=False):
                self.canvas.text(at, y, cell, 8, ha="right")
        if self.lanes.posts:
            y = top + 0.07 + (len(self.lanes.rows) + 1) * ROW
            self.canvas.cell(0.35, y - 0.055, 0.16, 0.11, facecolor=_tint(COLOURS["permute"]), edgecolor="none")
            self.canvas.text(0.6, y, "pale: posted, while the rank does something else", 8)

    def cells(self, row: Row) -> list[str]:
        """The numbers of a line of the table."""
        measured, other = (run.seconds for run in self.lanes.runs)
        cells = [format_seconds(row.measured), f"{row.measured / measured:.1%}"]
        if self.lanes.predicted and row.predicted is not None:
            share = f"{row.predicted / other:.1%}" if other else ""
            ratio = f"{row.predicted / row.measured:.2f}" if row.ops and row.measured > 0 else ""
            cells += [format_seconds(row.predicted), share, ratio]
        return cells


def _step(longest: float) -> float:
    """A round number of seconds that divides the axis into five to ten."""
    size = 10.0 ** floor(log10(longest / 5))
    return next(k * size for k in (1, 2, 5, 10) if longest / (k * size) <= 10)


def _ticks(longest: float) -> Iterator[tuple[float, str]]:
    """Where the axis has lines, and what is written there."""
    step = _step(longest)
    name, unit = next(one for one in UNITS if longest >= one[1] or one is UNITS[-1])
    for k in range(floor(longest / step + 1e-9) + 1):
        yield k * step, f"{k * step / unit:.6g} {name}" if k else "0"
