"""The heat map: bandwidth from each GPU, or machine, to each other on an idle network."""

import math
import re
from itertools import pairwise

import numpy as np

from sim.pairs import Pairs
from sim.pictures.canvas import Canvas
from sim.pictures.style import INK, LINE, PALE, Scale, fitted, text_width
from topologies.units import GB, format_rate

SIDE, LARGEST_CELL, LEAST_CELL = 3.1, 0.32, 0.1  # inches
LABELS = 0.34  # of the numbers along both sides
HEAD = 0.72  # of the texts above it
EACH = 10  # rows up to which each cell has its number; beyond, there is a key, and equal cells side by side are one
TITLE = "from row to column, the narrowest link of the route"
NOTHING = "#f1f2f4"


def _cell_size(pairs: Pairs) -> float:
    """Return the side of a cell in inches."""
    return min(LARGEST_CELL, max(LEAST_CELL, SIDE / len(pairs.names)))


def heat_size(pairs: Pairs) -> tuple[float, float]:
    """Return how wide and how high the map is with its texts, in inches."""
    side = _cell_size(pairs) * len(pairs.names)
    key = [text for _, text in _key(pairs)] if len(pairs.names) > EACH else []
    wide = max(LABELS + side, text_width(_title(pairs), 8), text_width(TITLE, 7), LABELS + _key_width(key))
    return wide, HEAD + side + (0.3 if key else 0.1)


def heat_map(canvas: Canvas, pairs: Pairs, scale: Scale, left: float, top: float) -> None:
    """Put the map; bandwidths have the colours that links have."""
    size, start, first, n = _cell_size(pairs), left + LABELS, top + HEAD, len(pairs.names)
    canvas.text(left, top + 0.08, _title(pairs), 8, color=PALE)
    canvas.text(left, top + 0.25, TITLE, 7, color=PALE)
    numbers = _numbers(pairs.names)
    is_long = any(text_width(name, 6.5) > size for name in numbers)
    step = 1 if size >= 0.15 else 2
    for row, name in enumerate(numbers):
        if row % step == 0:
            text, points = fitted(name, 6.5, LABELS - 0.05, least=4.5)
            canvas.text(start - 0.05, first + (row + 0.5) * size, text, points, ha="right", color=PALE)
            upright = {"rotation": 90, "va": "bottom"} if is_long else {}
            points = min(6.5, size * 50) if is_long else points
            canvas.text(
                start + (row + 0.5) * size,
                first - (0.04 if is_long else 0.08),
                text,
                points,
                ha="center",
                color=PALE,
                **upright,
            )
        for begin, end in _runs(pairs, row):
            _run(canvas, pairs, scale, (start, first), (row, begin, end))
    if n > EACH:
        for k in range(1, n):
            for line in ([(k, 0), (k, n)], [(0, k), (n, k)]):
                points_of = [(start + x * size, first + y * size) for x, y in line]
                canvas.line(points_of, color="white", linewidth=0.5, zorder=3)
        _put_key(canvas, pairs, scale, start, first + n * size + 0.17)


def _runs(pairs: Pairs, row: int) -> list[tuple[int, int]]:
    """Return where in a row equal cells begin and end; in a small map each cell is by itself."""
    n, rates = len(pairs.names), pairs.rates[row]
    starts = [k for k in range(n) if n <= EACH or k == 0 or rates[k] != rates[k - 1]]
    return list(pairwise([*starts, n]))


def _run(canvas: Canvas, pairs: Pairs, scale: Scale, origin: tuple[float, float], at: tuple[int, int, int]) -> None:
    """Put the equal cells begin .. end-1 of a row."""
    (row, begin, end), size, is_small = at, _cell_size(pairs), len(pairs.names) <= EACH
    rate = float(pairs.rates[row, begin])
    x, y, width = origin[0] + begin * size, origin[1] + row * size, (end - begin) * size
    if math.isnan(rate):
        canvas.cell(x, y, width, size, facecolor=NOTHING, linewidth=0)
        return
    last = f" .. {pairs.names[end - 1]}" if end > begin + 1 else ""
    tip = f"{pairs.names[row]} to {pairs.names[begin]}{last}: {_rate(rate)}"
    line = {"edgecolor": "white", "linewidth": 0.6} if is_small else {"linewidth": 0}
    canvas.cell(x, y, width, size, tip, facecolor=_colour(scale, rate), **line)
    if is_small:
        text, points = fitted(f"{rate / GB:.3g}", 6.5, width - 0.05, least=4)
        ink = "white" if rate and scale.at(rate) > 0.15 else INK
        canvas.text(x + width / 2, y + size / 2, text, points, ha="center", color=ink)


def _key(pairs: Pairs) -> list[tuple[float, str]]:
    """Return the bandwidths there are, fastest first, and where: within a machine, or across two."""
    rates, inside = pairs.rates, np.eye(len(pairs.names), dtype=bool)
    found = sorted(set(rates[~np.isnan(rates)].tolist()), reverse=True)
    texts = []
    for rate in found:
        where = [name for name, cells in (("within", inside), ("across", ~inside)) if (rates[cells] == rate).any()]
        texts.append(_rate(rate) + (f" {' and '.join(where)}" if pairs.by == "machine" else ""))
    return list(zip(found, texts, strict=True))[:4]


def _key_width(texts: list[str]) -> float:
    """Return how wide the key is, in inches."""
    return sum(0.36 + text_width(text, 7) for text in texts)


def _put_key(canvas: Canvas, pairs: Pairs, scale: Scale, left: float, y: float) -> None:
    """Put the key below the map."""
    for rate, text in _key(pairs):
        canvas.cell(left, y - 0.06, 0.12, 0.12, facecolor=_colour(scale, rate), linewidth=0)
        canvas.text(left + 0.18, y, text, 7, color=PALE)
        left += 0.36 + text_width(text, 7)


def _colour(scale: Scale, rate: float) -> str:
    """Return the colour of a bandwidth; 0 is no path."""
    return scale.colour(rate) if rate else LINE


def _rate(rate: float) -> str:
    """Write a bandwidth."""
    return format_rate(rate) if rate else "no path"


def _title(pairs: Pairs) -> str:
    """Return what the map shows, and in what unit."""
    return f"{pairs.title}, GB/s" if len(pairs.names) <= EACH else pairs.title


def _numbers(names: tuple[str, ...]) -> list[str]:
    """Return the numbers in each name, without the leading ones that all share: 1.3 for node1/gpu3."""
    found = [re.findall(r"\d+", name) for name in names]
    while len(names) > 1 and all(len(numbers) > 1 for numbers in found) and len({n[0] for n in found}) == 1:
        found = [numbers[1:] for numbers in found]
    return [".".join(numbers) or name for numbers, name in zip(found, names, strict=True)]
