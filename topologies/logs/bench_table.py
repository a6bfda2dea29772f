"""Markdown tables of all-reduce bandwidths, as people publish them: sizes down, one column a system; or GPUs down."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from topologies.files.facts import FileError
from topologies.files.text.paste import lines
from topologies.logs.records import Log, Record, Skipped
from topologies.units import GB, GiB, KiB, MiB, TiB

FORMAT = "a Markdown table of busbw"
_RATE = re.compile(r"([0-9]{1,9})(\.[0-9]{1,6})?[ ]?G(?:B/s|Bps|bps\(bytes\))", re.I)
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)[ ]?([KMGT]i?)?B", re.I)
_UNITS = {"": 1, "K": KiB, "M": MiB, "G": GiB, "T": TiB}
_NODES = re.compile(r"\b([0-9]{1,5})[ -]?nodes?\b", re.I)
_SIZES = ("payload", "size", "message", "bytes", "msg")
COARSE = 0.02  # relative: what was rounded off a rate may be no more of it


@dataclass(frozen=True)
class _Column:
    """A column of rates: how many machines, and the algorithm that its head names."""

    place: int
    nodes: int | None
    algorithm: str


def looks_like(text: str) -> bool:
    """Tell whether a text has a row of a table with a rate in GB/s."""
    return any(line.count("|") > 2 and _RATE.search(line) for line in text.split("\n", 2000)[:2000] if len(line) < 5000)


def read(text: str, file: str) -> Log:
    """Return the measurements of a table.

    Raises:
        FileError: there is none.
    """
    skipped, records = Skipped(), list[Record]()
    head: list[str] = []
    for number, line in enumerate(lines(text, file, FORMAT), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "|" not in line:
            head = []
        elif all(re.fullmatch(":?-*:?", cell) for cell in cells):
            continue
        elif not any(_RATE.fullmatch(cell) for cell in cells):
            head = [cell.lower() for cell in cells]
        else:
            records += _row(cells, head, file, number, skipped)
    if not records:
        raise FileError(file, "; ".join(["holds no rate that can be used", *skipped.notes()][:3]))
    notes = ["rates are taken for busbw of all_reduce, which such tables give"]
    if any(record.nbytes is None for record in records):
        notes.append("sizes are not said: taken for large messages")
    return Log(file, FORMAT, tuple(records), tuple([*notes, *skipped.notes()]))


def _row(cells: list[str], head: list[str], file: str, number: int, skipped: Skipped) -> Iterator[Record]:
    """Yield the records of a row."""
    nbytes, ranks, picked = None, None, ""
    for cell, name in zip(cells, head, strict=False):
        if (size := _SIZE.fullmatch(cell)) and any(word in name for word in _SIZES):
            nbytes = _nbytes(size)
        elif re.fullmatch(r"(?:#\s?)?(?:gpus?|ranks?)", name) and re.fullmatch("[0-9]{1,6}", cell):
            ranks = int(cell)
        elif "algo" in name and re.fullmatch("[A-Za-z_]{2,20}", cell):
            picked = cell.lower()
    for column in _columns(cells, head, picked):
        rate = _RATE.fullmatch(cells[column.place])
        assert rate is not None
        value = float(rate[1] + (rate[2] or ""))
        half = 0.5 * 10.0 ** -(len(rate[2] or ".") - 1)
        if half > COARSE * value:
            skipped.add("rates of so few digits", number)
        elif nbytes is not None or ranks is not None:
            yield Record(
                "all_reduce", nbytes, None, file, number, ranks, column.nodes, value * GB, algorithm=column.algorithm
            )
        else:
            skipped.add("neither size nor GPUs are said", number)


def _columns(cells: list[str], head: list[str], picked: str) -> Iterator[_Column]:
    """Yield the columns of a row that hold rates."""
    for place, cell in enumerate(cells):
        if _RATE.fullmatch(cell):
            name = head[place] if place < len(head) else ""
            nodes = _NODES.search(name)
            off = re.search(r"\b(?:nvls|sharp) (?:off|disabled)|(?:no|without) (?:nvls|sharp)\b", name)
            yield _Column(place, int(nodes[1]) if nodes else None, "ring" if off else picked)


def _nbytes(size: re.Match[str]) -> int:
    """Return a size in bytes; K alone is 1024, kB as people write it too."""
    unit = (size[2] or "").upper().removesuffix("I")
    return int(float(size[1]) * _UNITS[unit])
