"""The columns to the right of a topology matrix: CPU affinity, NUMA nodes; which field of a row is whose."""

import re
from collections.abc import Mapping

from topologies.files.text.matrix import TITLE, Matrix, Row
from topologies.files.text.paste import quoted, several, some

NUMA_TITLES = ("numa affinity", "numa")  # `NUMA` in headers made by hand
AFFINITY = re.compile(r"[0-9][0-9,-]*|N/A")
NODE = re.compile(r"[0-9]{1,4}")
NODES = re.compile(r"[0-9]{1,4}(?:[,-][0-9]{1,4})+")
NO_NODE = ("", "N/A", "-1", "-", "None")
COMMA = re.compile(r",[ \t]+(?=\d)")
WORD = re.compile(r"\S+")
PIECE = re.compile(r"[^ \t]+(?: [^ \t]+)*")

Fields = Mapping[str, str]  # title -> field


def numa_nodes(table: Matrix) -> tuple[dict[str, int], list[str]]:
    """Return GPU -> NUMA node of its CPU where the table says one, and notes on what was mended or not understood."""
    titles = _titles(table)
    names = [title for title, _ in titles]
    title = next((t for t in NUMA_TITLES if t in names), None)
    if title is None:
        return {}, ["there is no NUMA column: the NUMA nodes of the GPUs are not said"]
    fields, notes = _fields(table, titles)
    nodes = {gpu: int(f[title]) for gpu, f in fields.items() if NODE.fullmatch(f.get(title, ""))}
    spans = {gpu: f[title] for gpu, f in fields.items() if NODES.fullmatch(f.get(title, ""))}
    none = [gpu for gpu, f in fields.items() if f.get(title, "") in NO_NODE]
    odd = [gpu for gpu in fields if gpu not in nodes and gpu not in spans and gpu not in none]
    if spans:
        span = ", ".join(sorted(set(spans.values()))[:3])
        notes.append(f"the NUMA node of {several(spans)} is a range ({span}): taken as not said")
    if none:
        notes.append(f"no NUMA node is given for {several(none)}")
    if odd:
        notes.append(
            f"the NUMA node of {several(odd)} is no number ({quoted(fields[odd[0]][title])}): taken as not said"
        )
    return nodes, notes


def _titles(table: Matrix) -> list[tuple[str, int]]:
    """Return the titles right of the devices, in lower case with single blanks, and where in the header each begins."""
    header = table.header.expandtabs()
    start = len(table.header[: table.tail].expandtabs())
    titles: list[tuple[str, int]] = []
    for piece in PIECE.finditer(header, start):
        known = list(TITLE.finditer(header, piece.start(), piece.end()))
        if known and not TITLE.sub("", piece[0]).strip():
            titles += [(" ".join(title[0].lower().split()), title.start()) for title in known]
        else:
            titles.append((piece[0].lower(), piece.start()))
    return titles


def _fields(table: Matrix, titles: list[tuple[str, int]]) -> tuple[dict[str, Fields], list[str]]:
    """Return GPU -> its fields; a row that lacks some is read by where the other rows have theirs."""
    names = [title for title, _ in titles]
    fields: dict[str, Fields] = {}
    starts: list[set[int]] = [set() for _ in titles]
    pending: list[str] = []
    for gpu in table.gpus:
        row = table.rows[gpu]
        cells = _cells(row, len(titles))
        if cells is None:
            pending.append(gpu)
            continue
        fields[gpu] = dict(zip(names, cells, strict=True))
        for known, word in zip(starts, _words(row), strict=False):
            known.add(word[0])
    if not pending:
        return fields, []
    columns = [min(known) if len(known) == 1 else None for known in starts]
    if not fields and _aligned(table):
        columns = [start for _, start in titles]
    mended: list[str] = []
    lost: list[str] = []
    for gpu in pending:
        found, cut = _by_place(_words(table.rows[gpu]), columns)
        fields[gpu] = {names[i]: field for i, field in found.items()}
        if cut:
            mended.append(f"{quoted(cut)} of {gpu} runs two columns together: read as {' and '.join(found.values())}")
        elif len(found) < len(_words(table.rows[gpu])):
            lost.append(gpu)
    notes = [some(mended)] if mended else []
    if lost:
        count = len(_words(table.rows[lost[0]]))
        notes.append(f"{several(lost)}: the row ends with {count} fields, the header with {len(titles)}: passed over")
    return fields, notes


def _cells(row: Row, count: int) -> list[str] | None:
    """Return one field a title where that is plain: as many words as titles, or cells between tabs; None otherwise."""
    words = [word for _, word in _words(row)]
    if len(words) == count:
        return words
    before = row.text[: row.tail].rstrip()
    cells = [cell.strip() for cell in row.text[len(before) :].split("\t")[1:]]
    if len(cells) < len(words) or any(" " in COMMA.sub(",", cell) for cell in cells):
        return None
    if len(cells) == count + 1 and not cells[-2]:
        del cells[-2]  # nvidia-smi prints two tabs before the last column
    return cells + [""] * (count - len(cells)) if len(cells) <= count else None


def _words(row: Row) -> list[tuple[int, str]]:
    """Return the words right of the entries, each with its place in the line."""
    tail = COMMA.sub(",", row.text[row.tail :].expandtabs()) if row.text[row.tail :].strip() else ""
    start = len(row.text[: row.tail].expandtabs())
    return [(start + word.start(), word[0]) for word in WORD.finditer(tail)]


def _aligned(table: Matrix) -> bool:
    """Whether the rows stand under the header, that is, it has lost no indentation."""
    last = table.names[-1]
    place = len(table.header[: table.tail].rstrip().expandtabs()) - len(last)
    row = table.rows[table.gpus[0]]
    end = len(row.text[: row.tail].rstrip().expandtabs())
    return abs(end - len(row.entries[-1]) - place) <= 2


def _by_place(words: list[tuple[int, str]], columns: list[int | None]) -> tuple[dict[int, str], str | None]:
    """Return column -> field of a row with too few words, by where they begin; and a word that was cut in two.

    A word that reaches over the beginning of the next column is cut there if both halves are what the columns hold.
    """
    found: dict[int, str] = {}
    cut = None
    for start, word in words:
        at = next((i for i, column in enumerate(columns) if column == start), None)
        if at is None:
            continue
        after = columns[at + 1] if at + 1 < len(columns) else None
        if after is not None and after < start + len(word):
            halves = word[: after - start], word[after - start :]
            if AFFINITY.fullmatch(halves[0]) and (NODE.fullmatch(halves[1]) or halves[1] == "N/A"):
                found[at], found[at + 1] = halves
                cut = word
        else:
            found[at] = word
    return found, cut
