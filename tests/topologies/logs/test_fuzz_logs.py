"""Whatever is done to a log, its reader returns records that hold together or refuses it in one line, and soon."""

import math
import time
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.topologies.files.test_fuzz import SECONDS, STEPS, many, mutated
from topologies.files.facts import FileError
from topologies.files.text import MOST, load
from topologies.logs import READERS, find, read, read_all

DATA = Path(__file__).parents[2] / "data" / "logs"
FIXTURES = sorted(path for path in DATA.iterdir() if path.is_file())


def judged(path):
    """Read a log, check what came of it and how long that took."""
    start = time.process_time()
    try:
        said = read_all([str(path)])
    except FileError as error:
        said = str(error).replace(str(path), path.name)
        assert said.isprintable(), repr(said)
        assert len(said) < 700
    else:
        for log in said:
            assert log.records
            assert all(note.isprintable() for note in log.notes), log.notes
            for one in log.records:
                assert one.nbytes is None or one.nbytes > 0
                assert one.seconds or one.busbw
                assert all(0 < x < math.inf for x in (one.seconds, one.busbw) if x is not None)
                assert one.ranks is None or one.ranks > 1
    assert time.process_time() - start < SECONDS
    return said


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.name)
@given(steps=STEPS)
@settings(derandomize=True, max_examples=60)
def test_a_mutated_log_is_read_or_refused_in_one_line(tmp_path_factory, fixture, steps):
    text = load(str(fixture))
    for step in steps:
        text = mutated(text, *step)
    path = tmp_path_factory.getbasetemp() / f"fuzz{fixture.suffix}"
    path.write_bytes(text.encode(errors="replace"))

    judged(path)


def test_every_reader_has_fixtures_that_no_other_reader_claims():
    texts = {path.name: load(str(path)) for path in FIXTURES}
    claims = {name: [one for one in READERS if find(one).looks_like(text)] for name, text in texts.items()}

    assert {found[0] for found in claims.values()} == set(READERS)
    assert all(len(found) == 1 for found in claims.values()), claims


ROW = " 8388608  2097152  float  sum  -1  407.5  20.59  38.60  N/A  405.5  20.69  38.79  N/A\n"


@pytest.mark.parametrize(
    "text",
    [
        many(ROW),
        many("8 2 float sum -1 "),
        many("# OSU MPI Latency Test v7\n# Size Latency (us)\n1 2.00\n"),
        many("| 1MiB | 2.00GBps | 3.00GBps |\n"),
        "| 1MiB " * 20 + many("| 2.00GBps "),
        '{"traceEvents": [' + many('{"ph":"X","name":"ncclKernel","dur":1,"args":{}},')[: MOST - 100] + "{}]}",
        '{"traceEvents": ' + many("[")[: MOST - 100],
        many("# Rank 1 Group 0 Pid 1 on a device 0 [0x18] b\n"),
        many("node01:1:1 [0] NCCL INFO Channel\n"),
        many("<!-- a -->"),
        many(" \t"),
    ],
    ids=["rows", "one line", "tests", "tables", "long row", "kernels", "nested", "ranks", "info", "comments", "blanks"],
)
def test_32_mib_of_anything_are_done_with_in_five_seconds(tmp_path, text):
    path = tmp_path / "large.txt"
    path.write_text(text[:MOST], newline="")

    judged(path)


def test_a_log_that_is_none_is_refused_with_what_is_read(tmp_path):
    path = tmp_path / "letter.txt"
    path.write_text("Dear all,\n")

    with pytest.raises(FileError, match=r"of no known format: expected a Markdown table .*nccl-tests, OSU"):
        read(str(path))
