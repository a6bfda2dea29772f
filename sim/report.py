"""Reports: results as tables for people; plain text of fixed width where the output is no terminal."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sim.candidates import Refusal
from sim.result import Result, tied
from topologies.units import format_bytes, format_flop_rate, format_seconds

if TYPE_CHECKING:
    from sim.bound import Bound

PLAIN_WIDTH = 120  # columns, where there is no terminal
SAME = 1e-3  # relative: times that are one
WIDE = 116  # columns that the whole ranking needs
RULE = "\u2500"  # of which a table's line is made
Cell = str | Text


@contextlib.contextmanager
def printing(file: IO[str]) -> Iterator[Console]:
    """Give what prints: in colour and as wide as the terminal, or plain and without blanks at line ends."""
    if file.isatty():
        yield Console(file=file, highlight=False, emoji=False, markup=False)
        return
    text = io.StringIO()
    yield Console(file=text, width=PLAIN_WIDTH, color_system=None, highlight=False, emoji=False, markup=False)
    plain = "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())
    file.write(plain if _has(file, RULE) else plain.replace(RULE, "-"))


def _has(file: IO[str], character: str) -> bool:
    """Whether the encoding of a file has a character."""
    try:
        return bool(character.encode(getattr(file, "encoding", None) or "utf-8"))
    except UnicodeEncodeError:
        return False


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Cell]]) -> Table:
    """Return a table.

    Args:
        columns: heading and alignment: "left", "right" or "whole"; left ones fold when room is short.
    """
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for heading, align in columns:
        made.add_column(
            heading,
            justify="right" if align == "right" else "left",
            no_wrap=align != "left",
            overflow="fold",
        )
    for row in rows:
        made.add_row(*row)
    return made


def facts(out: Console, pairs: Mapping[str, str]) -> None:
    """Print what was asked and taken, a fact a line."""
    width = max(map(len, pairs), default=0)
    for name, text in pairs.items():
        bullet(out, f"{name:<{width}}  ", text)


def bullet(out: Console, lead: str, text: str) -> None:
    """Print a text behind a lead, its further lines indented as far."""
    grid = Table.grid()
    grid.add_column(no_wrap=True, width=len(lead))
    grid.add_column(overflow="fold")
    grid.add_row(Text(lead), Text(text))
    out.print(grid)


def mesh_text(mesh: Mapping[str, int]) -> str:
    """A mesh as `--mesh` takes it."""
    return ",".join(f"{axis}={size}" for axis, size in mesh.items())


RANKING = (
    ("", "right"),
    ("algorithm", "left"),
    ("mesh", "whole"),
    ("layout", "whole"),
    ("time", "right"),
    ("p10..p90", "right"),
    ("+-", "right"),
    ("exposed", "right"),
    ("sent", "right"),
    ("peak", "right"),
    ("MFU", "right"),
    ("bound", "right"),
    ("busiest", "left"),
    ("tried", "right"),
)
DISPENSABLE = ("MFU", "sent", "exposed", "bound", "peak", "layout")  # columns, the first to go first
BETWEEN = 2  # blanks between two columns
LONG_NAME = 22 + BETWEEN  # characters of an algorithm that are not folded


def ranking(results: Sequence[Result], tried: Mapping[str, int], width: int = PLAIN_WIDTH) -> Table:
    """The results, best first; those that tie with the best are marked =.

    Args:
        tried: how many meshes and layouts of each algorithm were tried; a column of its own unless empty.
        width: columns there are; where they are few, some of the table's are left out.
    """
    left_out = ({"tried"} if not tried else set()) | ({"p10..p90"} if not varied(results) else set())
    if width < WIDE:
        left_out |= {"+-", "busiest", "tried"}
    rows = [
        [*_row(f"{place}{'=' if tied(found, results) else ' '}", found), str(tried.get(found.algorithm, ""))]
        for place, found in enumerate(results, 1)
    ]
    kept = _kept(rows, left_out, width)
    return table([RANKING[k] for k in kept], ([row[k] for k in kept] for row in rows))


def _kept(rows: Sequence[Sequence[Cell]], left_out: set[str], width: int) -> list[int]:
    """The columns that have room, beside those left out: less and less, so that no mesh is broken."""
    room = {
        number: max([len(heading), *(len(row[number]) for row in rows)]) + BETWEEN
        for number, (heading, _) in enumerate(RANKING)
        if heading not in left_out
    }
    room[1] = min(room[1], LONG_NAME)  # an algorithm of one's own may fold
    for dispensable in DISPENSABLE:
        if sum(room.values()) > width + BETWEEN:
            room = {number: size for number, size in room.items() if RANKING[number][0] != dispensable}
    return list(room)


def tie_text(results: Sequence[Result]) -> str:
    """What the marks mean; empty if nothing is marked."""
    marked = [tied(found, results) for found in results]
    ties = sum(marked)
    which = f"the first {ties}" if all(marked[:ties]) else f"the {ties} marked"
    return f"= {which} cannot be told apart: their times overlap within {within(results)}" if ties else ""


def varied(results: Sequence[Result]) -> bool:
    """Whether the results have repeats that differ."""
    return any(found.p10_s < found.p90_s for found in results)


def within(results: Sequence[Result]) -> str:
    """What widens the times of results."""
    return "the band of repeats and the stated error" if varied(results) else "the stated error"


LEGEND = (
    "sent (mean) and peak (most) are bytes of a rank, of attention only; a mesh has its slowest axis first;\n"
    "bound: time as a multiple of the bound; busiest: what is busy most of the time: a class of link, or the GPUs\n"
    "with arithmetic (compute), their memory or launches; waiting where nothing is"
)
BAND = "time: the median of the repeats; p10..p90: their 10th and 90th percentile; +-: the stated error alone"
UNFIT = "! more than the memory of a GPU, weights not counted: it cannot run as it is, and stands last"


def nothing_fits(results: Sequence[Result]) -> str:
    """Say that no result fits the memory, and which needs least; empty where one does."""
    if any(found.fits for found in results):
        return ""
    least = min(results, key=lambda found: found.peak_bytes.max)
    needs, has = format_bytes(least.peak_bytes.max), format_bytes(least.memory_bytes or 0)
    return f"nothing fits the memory of a GPU: {least.algorithm} needs least, {needs} of {has}, weights not counted"


def _row(place: str, found: Result) -> list[Cell]:
    """One result as a row."""
    return [
        place,
        found.algorithm,
        mesh_text(found.mesh),
        found.layout,
        format_seconds(found.time_s),
        _span(found.p10_s, found.p90_s),
        f"{found.time_high_s / found.p90_s - 1:.0%}" if found.p90_s else "",
        format_seconds(found.exposed_communication_s),
        format_bytes(found.sent_bytes.mean),
        format_bytes(found.peak_bytes.max) + ("" if found.fits else "!"),
        f"{found.mfu:.0%}",
        f"{found.time_s / found.bound_s:.2f}x" if found.bound_s else "",
        found.bottleneck,
    ]


def _span(first: float, last: float) -> str:
    """Two times, with one unit where it is the same."""
    low, high = format_seconds(first), format_seconds(last)
    number, _, unit = low.partition(" ")
    return f"{number if high.endswith(f' {unit}') else low}..{high}"


def idle_axes(results: Sequence[Result]) -> list[str]:
    """Say of a mesh with an axis of one rank which simpler algorithm it amounts to, where that takes the same time."""
    said = []
    for found in results:
        idle = [axis for axis, size in found.mesh.items() if size == 1]
        same = [
            other.algorithm
            for other in results
            if len(other.mesh) < len(found.mesh) and math.isclose(other.time_s, found.time_s, rel_tol=SAME)
        ]
        if idle and same:
            with_idle = ", ".join(f"{axis}=1" for axis in idle)
            said.append(f"{found.algorithm} with {with_idle} is {same[0]}, in time: an axis of one rank does nothing")
    return list(dict.fromkeys(said))


def best_of_each(results: Sequence[Result]) -> tuple[list[Result], dict[str, int]]:
    """The best result of each algorithm, and how many it had."""
    best: dict[str, Result] = {}
    tried: dict[str, int] = {}
    for found in results:
        best.setdefault(found.algorithm, found)
        tried[found.algorithm] = tried.get(found.algorithm, 0) + 1
    return list(best.values()), tried


def bound_text(least: Bound, form: str = "") -> str:
    """The bound and its limits.

    Args:
        form: the form of the attention that it is the bound of, where there are others.
    """
    limits = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in least.limits.items())
    schedule = f"exact schedule of {form}" if form else "exact schedule"
    return f"{format_seconds(least.seconds)}, by {least.what} ({limits}): no {schedule} is faster"


def refusals(out: Console, refused: Iterable[Refusal]) -> None:
    """Print what could not run, an algorithm a line, with its first reason and how many others it has."""
    by_algorithm: dict[str, list[Refusal]] = {}
    for one in refused:
        by_algorithm.setdefault(one.algorithm, []).append(one)
    for algorithm, reasons in by_algorithm.items():
        where = f" on {mesh_text(reasons[0].mesh)}" if reasons[0].mesh else ""
        more = f" (and {len(reasons) - 1} more, in --json)" if len(reasons) > 1 else ""
        bullet(out, "  ", f"{algorithm}{where}: {reasons[0].reason}{more}")


def partly(refused: Iterable[Refusal]) -> list[str]:
    """Say of algorithms that run on some meshes only how many of the others there are, in one line."""
    meshes: dict[str, set[str]] = {}
    for one in refused:
        meshes.setdefault(one.algorithm, set()).add(mesh_text(one.mesh or {}))
    counts = ", ".join(f"{len(which)} of {algorithm}" for algorithm, which in meshes.items())
    return [f"meshes that cannot run, with the reasons in --json: {counts}"] if counts else []


def untried(left: Mapping[str, int]) -> list[str]:
    """Say how many orders of an algorithm's axes were not tried."""
    counts = ", ".join(f"{number} of {name}" for name, number in left.items())
    return [f"orders of mesh axes that were not tried, one of which --mesh takes: {counts}"] if counts else []


def assumptions(out: Console, texts: Iterable[str]) -> None:
    """Print the assumptions, as footnotes."""
    out.print("\nassumptions:")
    for text in texts:
        bullet(out, "  - ", text)


def rate_text(found: Result) -> str:
    """The speed of a result."""
    return f"{format_flop_rate(found.flop_rate)} a GPU, {found.mfu:.1%} of its peak (visible pairs counted)"
