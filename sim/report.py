"""Reports: results as tables for people; plain text of fixed width where the output is no terminal."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sim.compare import Refusal
from sim.result import Result
from topologies.units import format_bytes, format_flop_rate, format_seconds

if TYPE_CHECKING:
    from sim.bound import Bound

PLAIN_WIDTH = 120  # columns, where there is no terminal
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
        columns: heading and alignment: "left" or "right"; left ones fold when room is short.
    """
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for heading, align in columns:
        made.add_column(
            heading,
            justify="right" if align == "right" else "left",
            no_wrap=align == "right",
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
    ("mesh", "left"),
    ("layout", "left"),
    ("time", "right"),
    ("+-", "right"),
    ("exposed", "right"),
    ("sent", "right"),
    ("peak", "right"),
    ("MFU", "right"),
    ("bound", "right"),
    ("busiest", "left"),
    ("tried", "right"),
)


def ranking(results: Sequence[Result], tried: Mapping[str, int], width: int = PLAIN_WIDTH) -> Table:
    """The results, best first; those that tie with the best are marked =.

    Args:
        tried: how many meshes and layouts of each algorithm were tried; a column of its own unless empty.
        width: columns there are; where they are few, some of the table's are left out.
    """
    left_out = {"+-", "busiest", "tried"} if width < WIDE else set[str]() if tried else {"tried"}
    rows = [
        [*_row(f"{place}{'=' if _tie(found, results) else ' '}", found), str(tried.get(found.algorithm, ""))]
        for place, found in enumerate(results, 1)
    ]
    kept = [number for number, (heading, _) in enumerate(RANKING) if heading not in left_out]
    return table([RANKING[k] for k in kept], ([row[k] for k in kept] for row in rows))


def _tie(found: Result, results: Sequence[Result]) -> bool:
    """Whether a result cannot be told from the best, and there is another."""
    return found.ties(results[0]) and any(other.ties(results[0]) for other in results[1:])


def tie_text(results: Sequence[Result]) -> str:
    """What the marks mean; empty if nothing is marked."""
    marked = [_tie(found, results) for found in results]
    ties = sum(marked)
    which = f"the first {ties}" if all(marked[:ties]) else f"the {ties} marked"
    return f"= {which} cannot be told apart: their times overlap within the stated error" if ties else ""


def _row(place: str, found: Result) -> list[Cell]:
    """One result as a row."""
    return [
        place,
        found.algorithm,
        mesh_text(found.mesh),
        found.layout,
        format_seconds(found.time_s),
        f"{found.time_high_s / found.time_s - 1:.0%}" if found.time_s else "",
        format_seconds(found.exposed_communication_s),
        format_bytes(found.sent_bytes.mean),
        format_bytes(found.peak_bytes.max) + ("" if found.fits else "!"),
        f"{found.mfu:.0%}",
        f"{found.time_s / found.bound_s:.2f}x" if found.bound_s else "",
        found.bottleneck,
    ]


def best_of_each(results: Sequence[Result]) -> tuple[list[Result], dict[str, int]]:
    """The best result of each algorithm, and how many it had."""
    best: dict[str, Result] = {}
    tried: dict[str, int] = {}
    for found in results:
        best.setdefault(found.algorithm, found)
        tried[found.algorithm] = tried.get(found.algorithm, 0) + 1
    return list(best.values()), tried


def bound_text(least: Bound) -> str:
    """The bound and its limits."""
    limits = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in least.limits.items())
    return f"{format_seconds(least.seconds)}, by {least.what} ({limits}): no exact schedule is faster"


def refusals(out: Console, refused: Iterable[Refusal]) -> None:
    """Print what could not run, an algorithm and reason a line."""
    for one in refused:
        where = f" on {mesh_text(one.mesh)}" if one.mesh else ""
        bullet(out, "  ", f"{one.algorithm}{where}: {one.reason}")


def assumptions(out: Console, texts: Iterable[str]) -> None:
    """Print the assumptions, as footnotes."""
    out.print("\nassumptions:")
    for text in texts:
        bullet(out, "  - ", text)


def rate_text(found: Result) -> str:
    """The speed of a result."""
    return f"{format_flop_rate(found.flop_rate)} a GPU, {found.mfu:.1%} of its peak (visible pairs counted)"
