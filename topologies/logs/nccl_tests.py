"""Output of nccl-tests and rccl-tests: tables of a size a row, out of and in place, as launchers and people leave it.

A row is known by its two whole numbers and the name of a type behind them, so that a prefix of any launcher does no
harm. Its figures are sound where size / time is the algbw beside it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from topologies.files.facts import FileError
from topologies.files.text.paste import lines
from topologies.logs.records import Log, Record, Skipped, factor, one_of
from topologies.units import GB, us

FORMAT = "nccl-tests"
ITEMSIZE = {
    **dict.fromkeys(("int8", "uint8", "fp8_e4m3", "fp8_e5m2", "f8e4m3", "f8e5m2", "fp8e4m3", "fp8e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16"), 2),
    **dict.fromkeys(("float", "int32", "uint32"), 4),
    **dict.fromkeys(("double", "int64", "uint64"), 8),
}
_ROW = re.compile(r"(?:^|[^\w.-])([0-9]{1,18})[ \t]+([0-9]{1,18})[ \t]+(" + "|".join(ITEMSIZE) + r")(?![\w.])")
_HEAD = re.compile(r"\bsize[ \t]+count[ \t]+type\b")
_RANK = re.compile(
    r"\bRank[ \t]+([0-9]{1,7})[ \t]+(?:Group[ \t]+[0-9]+[ \t]+)?Pid[ \t]+[0-9]+[ \t]+on[ \t]+(.*?)[ \t]*"
    r"\bdevice[ \t]+[0-9]+[ \t]+\[[0-9a-fA-Fx:.]+\](.*)"
)
_NAME = re.compile(r"\b([a-z_]{3,20})_perf\b")
_BEGIN = re.compile(r"Collective test starting|\bnThread [0-9]+ nGpus\b|# Using devices")
_FIGURE = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,6})?")
_TESTS = {"alltoall": "all_to_all", "hypercube": "hypercube"}
HINTS = (
    ("all_reduce", re.compile("all_?-?reduce", re.I)),
    ("all_gather", re.compile("all_?-?gather", re.I)),
    ("reduce_scatter", re.compile("reduce_?-?scatter", re.I)),
    ("all_to_all", re.compile("all_?-?to_?-?all", re.I)),
    ("sendrecv", re.compile("send_?-?recv", re.I)),
)
COARSE = 0.1  # GB/s; of less, two decimals say little
MOST_RANKS = 4096  # up to which a count of ranks is told from busbw / algbw


@dataclass
class _Row:
    """A sound row: figures are (time in us, algbw, busbw in GB/s, what stands under #wrong)."""

    line: int
    size: int
    count: int
    type: str
    redop: str
    root: int | None
    figures: list[tuple[float, float, float, str]]


@dataclass
class _Table:
    """The rows of one run, and what was said about it."""

    test: str = ""
    ranks: dict[int, tuple[str, str]] = field(default_factory=dict)  # rank -> host, GPU
    rows: list[_Row] = field(default_factory=list)


def looks_like(text: str) -> bool:
    """Tell whether a text is output of nccl-tests: the head of its table, or a row."""
    return _HEAD.search(text) is not None or any(
        "." in line and _ROW.search(line) is not None for line in text.split("\n", 500)[:500] if len(line) < 1000
    )


def read(text: str, file: str) -> Log:
    """Return the measurements of all tables in a text.

    Raises:
        FileError: there is no sound row, or none of more than one rank.
    """
    skipped, notes = Skipped(), list[str]()
    tables = [table for table in _tables(lines(text, file, FORMAT), skipped) if table.rows]
    if not tables:
        raise FileError(file, "; ".join(["holds no sound row of nccl-tests", *skipped.notes()][:3]))
    records = [record for table in tables for record in _records(table, file, notes)]
    if not records:
        raise FileError(file, "; ".join(["no table can be used", *notes][:3]))
    gpus = sorted({gpu for table in tables for _, gpu in table.ranks.values() if gpu})
    return Log(file, FORMAT, tuple(records), tuple([*skipped.notes(), *notes]), tuple(gpus))


def _tables(text: list[str], skipped: Skipped) -> Iterator[_Table]:
    """Yield the tables; a new one begins with a head, or what tools print before it."""
    now = _Table()
    for number, line in enumerate(text, 1):
        name = _NAME.search(line) if "_perf" in line else None
        if now.rows and (_HEAD.search(line) or _BEGIN.search(line) or (name and "concluded" not in line)):
            yield now
            now = _Table()
        if name:
            now.test = now.test or _TESTS.get(name[1], name[1])
        if "Rank" in line and (rank := _RANK.search(line)):
            now.ranks[int(rank[1])] = rank[2].strip(), rank[3].strip()
        elif found := _ROW.search(line):
            row = _row(found, line[found.end() :], number, skipped)
            if row:
                now.rows.append(row)
    yield now


def _row(found: re.Match[str], rest: str, number: int, skipped: Skipped) -> _Row | None:
    """Return a row if its figures hold together."""
    size, count, words = int(found[1]), int(found[2]), re.sub(r"\[[0-9]{1,6}\]", " ", rest[:400]).split()
    if not size:
        skipped.add("0 bytes, too few for so many ranks", number)
        return None
    redop = words.pop(0) if words and re.fullmatch("[a-z]{3,10}", words[0]) else ""
    for has_root in (True, False):  # old releases print none
        figures = list(_figures(words[has_root:], size))
        if figures:
            root = int(words[0]) if has_root and re.fullmatch("-?[0-9]{1,6}", words[0]) else None
            return _Row(number, size, count, found[3], redop, root, figures)
    short = len(words) < 4
    skipped.add("the row is cut" if short else "size / time is not the algbw beside it", number)
    return None


def _figures(words: list[str], size: int) -> Iterator[tuple[float, float, float, str]]:
    """Yield the figures out of place, then in place, as far as each holds together."""
    place = 0
    while place + 3 <= len(words):
        time, algbw, busbw = words[place : place + 3]
        if not all(_FIGURE.fullmatch(word) for word in (time, algbw, busbw)) or not agrees(size, time, algbw):
            return
        place += 3
        wrong = ""
        if place < len(words) and (len(words) - place) % 3 != 0:  # else #wrong is not printed
            wrong, place = words[place], place + 1
        yield float(time), float(algbw), float(busbw), wrong


def agrees(size: int, time: str, algbw: str) -> bool:
    """Tell whether size / time is the algbw within what was rounded off; time in us, algbw in GB/s, as printed."""
    if float(time) <= 0:
        return False
    least, most = (size / (float(time) * us + end * _half(time) * us) / GB for end in (1, -1))
    return least - 1.01 * _half(algbw) <= float(algbw) <= most + 1.01 * _half(algbw)


def _half(text: str) -> float:
    """Return half a unit of the last digit of a printed number."""
    return 0.5 * 10.0 ** -len(text.partition(".")[2])


def _records(table: _Table, file: str, notes: list[str]) -> list[Record]:
    """Return the records of a table, [] with a note where it is not known of what."""
    first, where = table.rows[0], f"table at line {table.rows[0].line}"
    said = 1 + max(table.ranks) if table.ranks else None
    test, how = _test(table, said, file)
    if not test:
        notes.append(f"{where} left out: {how}")
        return []
    if how:
        notes.append(f"{where}: {how}")
    ranks = _ranks(table, test, said, where, notes)
    if ranks is None:
        return []
    hosts = {host for host, _ in table.ranks.values() if host}
    nodes = len(hosts) if len(hosts) > 1 or len(table.ranks) == ranks else None  # lines of ranks may be left out
    blank = Record(test, first.size, 0.0, file, first.line, ranks, nodes)
    return [
        replace(blank, nbytes=row.size, seconds=time * us, line=row.line, busbw=busbw * GB or None, in_place=place > 0)
        for row in table.rows
        for place, (time, _, busbw, _) in enumerate(row.figures[:2])
    ]


def _test(table: _Table, ranks: int | None, file: str) -> tuple[str, str]:
    """Return which test a table is of, "" if nobody can tell, and how that is known unless it is said."""
    if table.test:
        return table.test, ""
    row = table.rows[-1]
    whole, sums = row.count * ITEMSIZE[row.type] == row.size, row.redop not in ("none", "")
    checked = any(len(row.figures) > 1 and row.figures[1][3] not in ("", "N/A") for row in table.rows)
    hint = next((test for test, pattern in HINTS if pattern.search(PurePath(file).name)), "")
    if row.root is not None and row.root >= 0:
        return ("reduce" if sums else "broadcast"), "the test is not named; its rows have a root"
    if sums and not whole:
        return "reduce_scatter", "the test is not named; taken for reduce_scatter by its counts"
    ratio = max((busbw / algbw for row in table.rows for _, algbw, busbw, _ in row.figures if algbw >= 1), default=0)
    if sums and ratio > 1.05:
        return "all_reduce", "the test is not named; taken for all_reduce by its busbw above algbw"
    kinds = ("all_reduce", "sendrecv") if whole else ("all_gather", "all_to_all")
    if hint in kinds:
        return hint, f"the test is not named; taken for {hint} by the name of the file"
    if checked:  # what cannot be done in place is not checked
        return kinds[0], f"the test is not named; taken for {kinds[0]}, as it was checked in place"
    return "", f"the test is not named: it may be {' or '.join(kinds)}; keep the line with its command"


def _ranks(table: _Table, test: str, said: int | None, where: str, notes: list[str]) -> int | None:
    """Return how many ranks took part, None with a note where it is not one number."""
    figures = [(busbw, algbw) for row in table.rows for _, algbw, busbw, _ in row.figures if algbw >= COARSE]
    fits = {n for n in range(1, MOST_RANKS + 1) if all(_fits(test, n, *pair) for pair in figures)} if figures else set()
    if said == 1 or (not said and fits == {1}):
        notes.append(f"{where} left out: of one rank alone, which communicates with none")
        return None
    if said and (said in fits or not figures or factor(test, 2) == 1 == factor(test, 3)):
        return said
    if found := one_of(fits):
        if said:
            notes.append(f"{where}: {found} ranks by busbw / algbw; the lines of ranks say {said}")
        return found
    if said:
        notes.append(f"{where}: busbw / algbw is not that of {said} ranks")
        return said
    if len(fits) > 1:
        notes.append(f"{where}: ranks not said; busbw / algbw fits {min(fits)} to {max(fits)}")
        return max(fits) if max(fits) - min(fits) <= max(fits) // 100 else None
    notes.append(f"{where} left out: no number of ranks is said, or fits busbw / algbw")
    return None


def _fits(test: str, ranks: int, busbw: float, algbw: float) -> bool:
    """Tell whether busbw / algbw is that of so many ranks, within what was rounded off (two decimals)."""
    return abs(busbw - factor(test, ranks) * algbw) <= 0.0051 * (1 + factor(test, ranks))
