"""A page in inches, y downwards, on which shapes are put; a shape with a tip has a title in SVG."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path

from sim.pictures.style import FONT, INK

Point = tuple[float, float]


class Canvas:
    """A figure of a given size in inches, and the tips of its shapes by their ids."""

    def __init__(self, width: float, height: float) -> None:
        self.figure = Figure(figsize=(width, height), facecolor="white")
        self.axes: Axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.axes.set_xlim(0, width)
        self.axes.set_ylim(height, 0)
        self.tips: dict[str, str] = {}

    def _tip(self, tip: str) -> str | None:
        """Note a tip; return the id of its shape."""
        if not tip:
            return None
        self.tips[f"tip{len(self.tips)}"] = tip
        return f"tip{len(self.tips) - 1}"

    def box(self, left: float, top: float, width: float, height: float, tip: str = "", **look: Any) -> None:
        """Put a box with round corners."""
        r = min(0.06, width / 3, height / 3)
        shape = FancyBboxPatch(
            (left + r, top + r),
            width - 2 * r,
            height - 2 * r,
            boxstyle=f"round,pad={r},rounding_size={r}",
            clip_on=False,
            **look,
        )
        shape.set_gid(self._tip(tip))
        self.axes.add_patch(shape)

    def cell(self, left: float, top: float, width: float, height: float, tip: str = "", **look: Any) -> None:
        """Put a rectangle."""
        shape = Rectangle((left, top), width, height, clip_on=False, **look)
        shape.set_gid(self._tip(tip))
        self.axes.add_patch(shape)

    def line(self, points: Sequence[Point], tip: str = "", **look: Any) -> None:
        """Put a line along points."""
        shape = Line2D([x for x, _ in points], [y for _, y in points], solid_capstyle="butt", clip_on=False, **look)
        shape.set_gid(self._tip(tip))
        self.axes.add_line(shape)

    def curve(self, a: Point, b: Point, depth: float, tip: str = "", **look: Any) -> None:
        """Put an arc from a to b that reaches `depth` below them, above where negative."""
        down = depth * 4 / 3
        path = Path([a, (a[0], a[1] + down), (b[0], b[1] + down), b], [Path.MOVETO] + [Path.CURVE4] * 3)
        shape = PathPatch(path, fill=False, capstyle="butt", clip_on=False, **look)
        shape.set_gid(self._tip(tip))
        self.axes.add_patch(shape)

    def text(self, x: float, y: float, text: str, size: float = 8, **look: Any) -> None:
        """Put a text; x and y are its left middle unless said otherwise."""
        given: Mapping[str, Any] = {"color": INK, "ha": "left", "va": "center_baseline", "zorder": 6} | look
        self.axes.text(x, y, text, fontsize=size, family=FONT, parse_math=False, clip_on=False, **given)
