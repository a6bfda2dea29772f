"""How things look: colours by kind of node, colours and widths by bandwidth, and how wide a text is."""

from collections.abc import Iterable
from functools import cache
from math import log

from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

FONT = "DejaVu Sans"  # comes with matplotlib, so that a text is as wide everywhere
INK, PALE, LINE, GROUND = "#1f2430", "#69707d", "#c9ced6", "#fafbfc"
FILL = {  # kind of node -> fill, edge
    "gpu": ("#dcefc9", "#5c8f26"),
    "nvswitch": ("#cdeae6", "#2a7f78"),
    "pcie": ("#e7e2f4", "#7563ad"),
    "cpu": ("#e9e9ec", "#70747d"),
    "nic": ("#fde6c6", "#c8801f"),
    "switch": ("#d6e5f8", "#3a72b5"),
    "machine": ("#f7f8fa", "#8d95a3"),
}
SLOW, FAST = 0.74, 0.02  # of the colour map: orange to indigo, all dark enough on white
THIN, THICK = 1.0, 4.2  # points


class Scale:
    """Colour and width of each bandwidth there is: half by its logarithm, half by its place among the others."""

    def __init__(self, rates: Iterable[float]) -> None:
        self.rates = sorted(set(rates))

    def at(self, rate: float) -> float:
        """Return where a bandwidth stands, from 0 (slowest) to 1."""
        low, high = self.rates[0], self.rates[-1]
        if high <= low:
            return 0.6
        by_place = self.rates.index(rate) / (len(self.rates) - 1) if rate in self.rates else 0.0
        return 0.5 * log(max(rate, low) / low) / log(high / low) + 0.5 * by_place

    def colour(self, rate: float) -> str:
        """Return the colour of a link."""
        return str(to_hex(colormaps["plasma"](SLOW + (FAST - SLOW) * self.at(rate))))

    def width(self, rate: float) -> float:
        """Return the width of a link, in points."""
        return THIN + (THICK - THIN) * self.at(rate)


@cache
def text_width(text: str, size: float, bold: bool = False) -> float:
    """Return how wide a text is, in inches."""
    if not text.strip():
        return 0.0
    font = FontProperties(family=FONT, weight="bold" if bold else "normal")
    return float(TextPath((0, 0), text, size=size, prop=font).get_extents().width) / 72


def fitted(text: str, size: float, room: float, least: float = 5.5) -> tuple[str, float]:
    """Return a text and a size at which it fits in so many inches: smaller, then cut."""
    wide = text_width(text, size)
    if wide <= room:
        return text, size
    size = max(least, size * room / wide)
    while len(text) > 2 and text_width(text, size) > room:
        text = text[:-2] + "…"
    return text, size
