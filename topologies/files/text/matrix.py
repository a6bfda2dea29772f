"""Square tables of devices against devices, as the makers' tools print them, found among whatever is around them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from topologies.files.facts import FileError
from topologies.files.text.paste import ELLIPSIS, quoted, several

MOST = 1024  # devices in one table
MOST_TABLES = 16  # in one file

GPU = re.compile(r"GPU(?:0|[1-9]\d{0,3})")
# mlx5_0, NIC12, bnxt_re0, cxi0, rocep1s0f0, rdmap16s27; a UUID such as GPU-1a2b is none
DEVICE = re.compile(r"(?!GPU-)[A-Za-z][A-Za-z0-9_.-]{0,62}\d[A-Za-z0-9_.-]{0,62}")
TITLE = re.compile(r"(?i)\b(?:(?:CPU[ \t]+|NUMA[ \t]+)?Affinity|GPU[ \t]+NUMA[ \t]+ID|NUMA(?:[ \t]+ID)?|CPU)(?!\S)")


@dataclass(frozen=True)
class Row:
    """One row: its line, its whole text, one entry a column, and where in the text what follows them begins."""

    line: int
    text: str
    entries: tuple[str, ...]
    tail: int


@dataclass(frozen=True)
class Matrix:
    """One table: the line and text of its header, the devices, where in the header they end; and the rows by device."""

    line: int
    header: str
    names: tuple[str, ...]
    tail: int
    rows: dict[str, Row] = field(default_factory=dict)
    elided: list[int] = field(default_factory=list)  # lines that say that rows were left out

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs among the devices."""
        return tuple(name for name in self.names if GPU.fullmatch(name))

    def off_diagonal(self) -> Iterator[tuple[str, str, str]]:
        """Yield (row, column, entry) but for a device with itself."""
        for a in self.names:
            for b, entry in zip(self.names, self.rows[a].entries, strict=True):
                if a != b:
                    yield a, b, entry

    def same(self, other: "Matrix") -> bool:
        """Whether two tables say the same."""
        return self.names == other.names and all(
            self.rows[name].text.split() == other.rows[name].text.split() for name in self.names
        )


def find(lines: Sequence[str], file: str, entry: re.Pattern[str]) -> list[Matrix]:
    """Return every table in these lines, each whole and square.

    A header begins with a GPU and holds devices, then titles of other columns; a row begins with a device of the
    header above it and holds something that `entry` matches. All other lines are passed over.

    Raises:
        FileError: rows or entries are missing, left out (`...`) or too many, a name stands twice, a row has no header,
            or there are more devices than MOST.
    """
    found: list[Matrix] = []
    table: Matrix | None = None
    for number, line in enumerate(lines, 1):
        words = line[:400].split(None, 2)[:2]
        if not words:
            continue
        first, second = words[0], words[1] if len(words) > 1 else ""
        if ELLIPSIS.fullmatch(first):
            if table and len(table.rows) < len(table.names):
                table.elided.append(number)
        elif table and first in table.names and _is_row(line, table, entry):
            _add(table, first, line, number, file, entry)
        elif GPU.fullmatch(first) and not entry.fullmatch(second):
            open_row = table is not None and first in table.names and len(table.rows) < len(table.names)
            header = None if open_row and not second else _header(line, number, file)
            if header:
                _keep(found, table, lines, file)
                table = header
        elif second and entry.fullmatch(second) and (table or GPU.fullmatch(first)):
            _stranger(table, first, line, number, file, entry)
    _keep(found, table, lines, file)
    return found


def _header(line: str, number: int, file: str) -> Matrix | None:
    """Return the table that a header line begins, None if it is no header."""
    title = TITLE.search(line)
    tail = title.start() if title else len(line)
    names = tuple(line[:tail].split(None, MOST + 1))
    if not names or not all(DEVICE.fullmatch(name) or ELLIPSIS.fullmatch(name) for name in names[:MOST]):
        return None
    if len(names) > MOST:
        raise FileError(file, f"a table of more than {MOST:,} devices is refused", number)
    for name in names:
        if ELLIPSIS.fullmatch(name):
            raise FileError(
                file, f"{quoted(name)} stands for columns that were left out: paste the whole output", number
            )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FileError(file, f"{quoted(twice)} stands twice in the header", number)
    return Matrix(number, line, names, tail)


def _is_row(line: str, table: Matrix, entry: re.Pattern[str]) -> bool:
    """Whether a line that begins with a device of the table holds any entry."""
    return any(entry.fullmatch(word) for word in line.split(None, len(table.names) + 1)[1 : len(table.names) + 1])


def _add(table: Matrix, name: str, line: str, number: int, file: str, entry: re.Pattern[str]) -> None:
    """Put a row into the table."""
    count = len(table.names)
    words = line.split(None, count + 1)
    entries, rest = words[1 : count + 1], words[count + 1 :]
    if name in table.rows:
        if not all(entry.fullmatch(word) for word in entries):
            return  # words about the device
        where = table.rows[name].line
        wrong = f"row {name} stands twice, first in line {where}: keep the output of one machine"
        raise FileError(file, wrong, number)
    for word in entries:
        if ELLIPSIS.fullmatch(word):
            raise FileError(
                file, f"{quoted(word)} in row {name} stands for entries left out: paste the whole output", number
            )
    more = rest[0].split(None, 1)[0] if rest else ""
    if entry.fullmatch(more):
        wrong = f"row {name} has more entries than the header in line {table.line} has devices, {count}"
        raise FileError(file, f"{wrong}: paste the whole output", number)
    table.rows[name] = Row(number, line, tuple(entries), len(line) - len(rest[0]) if rest else len(line))


def _stranger(table: Matrix | None, first: str, line: str, number: int, file: str, entry: re.Pattern[str]) -> None:
    """Refuse a row of a device that no header names; pass over any other line."""
    if table is None:
        raise FileError(file, f"row {first} has no header above it: paste the whole output", number)
    count = len(table.names)
    words = line.split(None, count + 1)[1 : count + 1]
    whole = DEVICE.fullmatch(first) and len(words) == count and all(entry.fullmatch(word) for word in words)
    if GPU.fullmatch(first) or whole:
        wrong = f"row {quoted(first)} has no column in the header of line {table.line}"
        raise FileError(file, f"{wrong}: paste the whole output", number)


def _keep(found: list[Matrix], table: Matrix | None, lines: Sequence[str], file: str) -> None:
    """Check that a table is whole, and keep it; a lone name in a line is no header if nothing follows."""
    if table is None or (not table.rows and table.names == (table.header.strip(),)):
        return
    if len(found) == MOST_TABLES:
        raise FileError(file, f"holds more than {MOST_TABLES} tables: keep the output of one machine", table.line)
    _whole(table, lines, file)
    found.append(table)


def _whole(table: Matrix, lines: Sequence[str], file: str) -> None:
    """Refuse a table that lacks rows or entries: say which, and where the last one stands."""
    missing = [name for name in table.names if name not in table.rows]
    if not table.rows:
        raise FileError(file, f"the paste ends after the header; {_rows(missing)} missing", table.line)
    last = max(table.rows, key=lambda name: table.rows[name].line)
    line = table.rows[last].line
    ends = bool(missing) or not any(text.strip() for text in lines[line:])
    for name, row in table.rows.items():
        if len(row.entries) < len(table.names) and (name != last or not ends):
            raise FileError(file, f"row {name} has {len(row.entries)} of {len(table.names)} entries", row.line)
    inside = len(table.rows[last].entries) < len(table.names) or (bool(missing) and _cut(table, last))
    if table.elided and missing:
        raise FileError(file, f"'...' stands for {_rows(missing, verb=False)}: paste the whole output", table.elided[0])
    if missing and table.names.index(last) > table.names.index(missing[0]):
        raise FileError(file, f"the table lacks {_rows(missing, verb=False)}: paste the whole output", table.line)
    if inside:
        wrong = f"the paste ends inside row {last}; {_rows([last, *missing])} missing: paste the whole output"
        raise FileError(file, wrong, line)
    if missing:
        raise FileError(
            file, f"the paste ends after row {last}; {_rows(missing)} missing: paste the whole output", line
        )


def _cut(table: Matrix, last: str) -> bool:
    """Whether the last row ends within a word that another row shows whole, or has fewer words than those before."""
    rows = [row.text.split() for name, row in table.rows.items() if GPU.fullmatch(name) and name != last]
    words = table.rows[last].text.split()
    if not GPU.fullmatch(last) or not rows:
        return False
    if all(len(words) < len(row) for row in rows):
        return True
    return any(len(row) >= len(words) and _begins(row[len(words) - 1], words[-1]) for row in rows)


def _begins(whole: str, part: str) -> bool:
    """Whether one word is the beginning of another one."""
    return whole != part and whole.startswith(part)


def _rows(names: Sequence[str], verb: bool = True) -> str:
    """Return rows in words: rows GPU4 .. GPU15 and those of 10 NICs are."""
    gpus = [name for name in names if GPU.fullmatch(name)]
    nics = [name for name in names if not GPU.fullmatch(name)]
    if len(nics) <= 3:
        said = f"row{'s' if len(names) > 1 else ''} {several(names)}"
    else:
        said = f"rows {several(gpus)} and those of {len(nics)} NICs" if gpus else f"the rows of {len(nics)} NICs"
    return said + (" is" if len(names) == 1 else " are") * verb
