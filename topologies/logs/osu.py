"""Output of the OSU micro-benchmarks, one test or several: a size a row, columns as the head names them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from topologies.files.facts import FileError
from topologies.files.text.paste import lines, quoted
from topologies.logs.records import Log, Record, Skipped
from topologies.units import MB, us

FORMAT = "OSU micro-benchmarks"
_TITLE = re.compile(r"#[ \t]*OSU (?:MPI|NCCL|xCCL|RCCL|UPC\+*|OpenSHMEM)(-\S+)? (.{1,80}?)[ \t]*Test\b")
_HEAD = re.compile(r"#[ \t]*(?:Message )?Size\b(.*)", re.I)
_COLUMN = re.compile(r"[^\s()][^()\t]{0,40}?[ \t]?\((?:us|MB/s|%|ms)\)|MB/s|Messages/s|Iterations|Validation|[^\s()]+")
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,8})?")
_DEVICES = re.compile(r"\b(?:CUDA|HIP|ROCR|GPU)\w*DEVICE\w*=([0-9]{1,3}),([0-9]{1,3})(?![,0-9])")
_DEVICE_BUFFERS = re.compile(r"Buffer on DEVICE", re.I)

# Titles in lower case, without blocking or not, and the test as we call it; OSU's size of these counts ...
_WHOLE = {"allreduce latency": "all_reduce", "broadcast latency": "broadcast", "reduce latency": "reduce"}
_EACH = {  # ... what a rank has for one other
    "allgather latency": "all_gather",
    "all-to-all personalized exchange latency": "all_to_all",
    "alltoall latency": "all_to_all",
    "all-to-all latency": "all_to_all",
    "gather latency": "gather",
    "scatter latency": "scatter",
}
_PAIRS = {
    "bandwidth": "bw",
    "bi-directional bandwidth": "bibw",
    "latency": "latency",
}
_SCATTERS = {"reduce_scatter latency": "reduce_scatter", "reduce-scatter latency": "reduce_scatter"}
_TESTS = _WHOLE | _EACH | _PAIRS | _SCATTERS
# Columns that are used, in this order: of tests that overlap with computing, what communication alone takes.
_TIMES = ("pure comm.(us)", "avg latency(us)", "avg latency (us)", "latency (us)", "latency(us)")
_RATES = ("bandwidth (mb/s)", "mb/s")


@dataclass
class _Test:
    """A test: what it is called, the column that is used, and whether that is a rate."""

    name: str
    title: str
    on_host: bool
    column: int | None = None
    is_rate: bool = False
    columns: int = 0


def looks_like(text: str) -> bool:
    """Tell whether a text is output of the OSU benchmarks."""
    return _TITLE.search(text) is not None


def read(text: str, file: str) -> Log:
    """Return the measurements of all tests in a text.

    Raises:
        FileError: there is none.
    """
    skipped, notes = Skipped(), list[str]()
    records = list(_records(lines(text, file, FORMAT), file, skipped, notes))
    if not records:
        raise FileError(file, "; ".join(["holds no measurement of an OSU benchmark", *notes, *skipped.notes()][:3]))
    return Log(file, FORMAT, tuple(records), tuple([*notes, *skipped.notes()]))


def _records(text: list[str], file: str, skipped: Skipped, notes: list[str]) -> Iterator[Record]:
    """Yield the records in order; a title begins a test, and what is no row of its columns ends it."""
    test: _Test | None = None
    devices: tuple[int, int] | None = None
    for number, line in enumerate(text, 1):
        if title := _TITLE.search(line):
            if test and test.column is None:
                notes.append(f"{test.title} before line {number} left out: no columns that can be used")
            test = _begun(title, number, notes)
        elif found := _DEVICES.search(line):
            devices = int(found[1]), int(found[2])
        elif test is None:
            continue
        elif head := _HEAD.search(line):
            _choose(test, [column.strip().lower() for column in _COLUMN.findall(head[1])])
        elif _DEVICE_BUFFERS.search(line):
            test.on_host = False
        elif test.column is not None:
            record = _row(test, line.split(), file, number, devices, skipped)
            if record:
                yield record
    if test and test.column is None:
        notes.append(f"{test.title} left out: no rows with columns that can be used")


def _begun(title: re.Match[str], number: int, notes: list[str]) -> _Test | None:
    """Begin the test of a title, None with a note where it is none of those known."""
    words = re.sub(r"^non-blocking |^persistent |^osu ", "", title[2].lower().removesuffix(" (experimental)"))
    if words not in _TESTS:
        notes.append(f"line {number}: {quoted(title[2])} is no test that is used")
        return None
    return _Test(_TESTS[words], f"OSU {title[2]} Test", on_host=title[1] is None)


def _choose(test: _Test, columns: list[str]) -> None:
    """Choose the column to be used."""
    names = ["size", *columns]
    test.columns = len(names)
    for wanted, is_rate in ((_TIMES, False), (_RATES, True)):
        for name in wanted:
            if name in names:
                test.column, test.is_rate = names.index(name), is_rate
                return


def _row(
    test: _Test, words: list[str], file: str, number: int, devices: tuple[int, int] | None, skipped: Skipped
) -> Record | None:
    """Return the record of a row; None of what is no row, with a note where it begins as one."""
    assert test.column is not None
    if not words or not re.fullmatch("[0-9]{1,18}", words[0]):
        return None
    size, value = int(words[0]), words[test.column] if test.column < len(words) else ""
    if not size:
        skipped.add("0 bytes", number)
        return None
    if not _NUMBER.fullmatch(value) or not float(value):
        skipped.add("the row is cut, or its figure is no number", number)
        return None
    if any(word.lower() == "fail" for word in words):
        skipped.add("its validation failed", number)
        return None
    rate = float(value) * MB if test.is_rate else None
    if rate is not None and float(value) < 1:  # two decimals
        skipped.add("below 1 MB/s two decimals say little", number)
        return None
    ranks = 2 if test.name in _PAIRS.values() else None
    return Record(
        test=test.name,
        nbytes=size,
        seconds=size / rate if rate else float(value) * us,
        file=file,
        line=number,
        ranks=ranks,
        busbw=rate,
        each=test.name in _EACH.values(),
        devices=devices if ranks else None,
        on_host=test.on_host,
    )
