"""A picture as the bytes of a file: PNG, SVG with tips, or one HTML page; the same bytes for the same picture."""

import io
import re
from collections.abc import Callable, Mapping
from typing import Any
from xml.sax.saxutils import escape

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from sim.pictures import Picture
from sim.pictures.drawing import draw
from sim.pictures.page import page

DPI = 160  # of a PNG: the smallest texts, of 5 points, are 11 pixels high
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "ringloom",
    "svg.fonttype": "none",
    "path.simplify": False,
    "text.hinting": "none",
}
NOTHING = {"Date": None, "Creator": None, "Format": None, "Type": None}


Drawn = Callable[[], tuple[Figure, Mapping[str, str]]]  # a figure, and the tips of its shapes by their ids


def png(picture: Picture) -> bytes:
    """Return a PNG file."""
    return as_png(lambda: draw(picture))


def svg(picture: Picture) -> bytes:
    """Return an SVG file, whose boxes, wires and cells have titles."""
    return as_svg(lambda: draw(picture))


def html(picture: Picture) -> bytes:
    """Return one page that needs nothing else."""
    return page(picture, svg(picture).decode()).encode()


def as_png(drawn: Drawn) -> bytes:
    """Return what is drawn as a PNG file."""
    data = io.BytesIO()
    with mpl.rc_context(SETTINGS):
        figure, _ = drawn()
        figure.set_dpi(DPI)
        FigureCanvasAgg(figure).print_png(data, metadata={"Software": None})  # type: ignore[no-untyped-call]
    return data.getvalue()


def as_svg(drawn: Drawn) -> bytes:
    """Return what is drawn as an SVG file, whose shapes have their tips as titles."""
    text = io.StringIO()
    with mpl.rc_context(SETTINGS):
        figure, tips = drawn()
        FigureCanvasSVG(figure).print_svg(text, metadata=NOTHING)  # type: ignore[no-untyped-call]
    return _titled(text.getvalue(), tips).encode()


def _titled(text: str, tips: Mapping[str, str]) -> str:
    """Return the SVG in fewer bytes, with a title for each shape that has a tip."""

    def title(match: re.Match[str]) -> str:
        return f"<g><title>{escape(tips[match[1]])}</title>" if match[1] in tips else match[0]

    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    text = re.sub(r'(?<==)"[^"<>]*"', _short, text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    text = re.sub(r'<g id="(?:patch|line2d|text|axes|figure)_\d+">', "<g>", text)
    text = re.sub(r"<g>\n((?:<(?:path|text)\b[^>]*(?:/>|>[^<]*</text>)\n)+)</g>\n", r"\1", text)
    return re.sub(r'<g id="(tip\d+)">', title, text)


def _short(attribute: re.Match[str]) -> str:
    """Return an attribute's value with numbers to a hundredth of a point, and without blanks that say nothing."""
    text = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), attribute[0])
    return re.sub(r"\s*([:;])\s*|\s*\n\s*", r"\1", text).replace(";stroke-linejoin:miter", "")
