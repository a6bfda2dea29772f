"""Whatever is done to a file, a reader returns facts that hold together or refuses it in one line, and soon."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.files import READERS, find, read
from topologies.files.assembly import topology
from topologies.files.facts import CLASSES, ClusterFacts, FileError, MachineFacts, NetworkFacts
from topologies.files.text import MOST, load
from topologies.laws import check
from topologies.units import GB

DATA = Path(__file__).parents[2] / "data" / "files"
FIXTURES = sorted(path for path in DATA.iterdir() if path.is_file())

SECONDS = 5  # of one CPU; the wall clock would count what else the machine does

JUNK = [
    "\x1b[31m",
    "\r\n",
    "\t",
    "   ",
    "...",
    "GPU0",
    " X ",
    "-1",
    "0",
    "9" * 40,
    "\u2028",
    "nan",
    "<a>",
    "&x;",
    '"',
    "{",
    "\0",
]


def modules():
    return [find(name) for name in READERS]


def reader_of(text):
    return next((module for module in modules() if module.looks_like(text)), None)


def outcome(path):
    """The facts, or the line that refuses the file."""
    try:
        return read(str(path))
    except FileError as error:
        return str(error).replace(str(path), path.name)


def hold_together(facts):
    """Check what holds of facts of any file."""
    assert all(note.isprintable() for note in facts.notes), facts.notes
    if isinstance(facts, MachineFacts):
        indices = [gpu.index for gpu in facts.gpus]
        devices = {f"gpu{index}" for index in indices} | {nic.name for nic in facts.nics}
        assert indices
        assert len(devices) == len(facts.gpus) + len(facts.nics)
        assert all(rate >= 0 for gpu in facts.gpus for rate in gpu.ports or ())
        assert all(a < b and {a, b} <= set(indices) and count > 0 for (a, b), count in facts.links.items())
        assert all({*pair} <= devices and path in CLASSES for pair, path in facts.near.items())
        assert all(facts.near[b, a] == path for (a, b), path in facts.near.items())
    elif isinstance(facts, NetworkFacts):
        ends = {*facts.switches} | {f"{host}/{nic.name}" for host, nics in facts.hosts.items() for nic in nics}
        assert all({cable.a, cable.b} <= ends for cable in facts.cables)
        assert all(cable.bandwidth is None or cable.bandwidth > 0 for cable in facts.cables)
    else:
        assert isinstance(facts, ClusterFacts)
        assert len(facts.graph) > 0


def judged(path):
    """Read a file, check what came of it and how long that took."""
    start = time.process_time()
    said = outcome(path)
    assert time.process_time() - start < SECONDS
    if isinstance(said, str):
        assert said.isprintable(), repr(said)
        assert len(said) < 500
    else:
        hold_together(said)
    return said


def mutated(text, kind, at, size, junk):
    """Return a text with one thing done to it, at a place that is a fraction of its length."""
    lines = text.split("\n")
    place, line = int(at * len(text)), int(at * len(lines))
    other = int(size * len(lines))
    if kind == "cut":
        return text[:place]
    if kind == "behead":
        return text[place:]
    if kind == "drop":
        return "\n".join(lines[:line] + lines[line + 1 + int(size * 4) :])
    if kind == "repeat":
        return "\n".join(lines[:line] + lines[line : line + 1 + int(size * 9)] * 2 + lines[line + 1 :])
    if kind == "swap":
        lines[line % len(lines)], lines[other % len(lines)] = lines[other % len(lines)], lines[line % len(lines)]
        return "\n".join(lines)
    if kind == "column":
        word = int(at * 8)
        return "\n".join(re.sub(rf"^((?:\s*\S+){{{word}}})\s*\S+", r"\1", line) for line in lines)
    if kind == "grow":
        numbers = list(re.finditer(r"\d+", text))
        number = numbers[int(at * len(numbers))] if numbers else None
        return text[: number.end()] + "9" * int(1 + size * 40) + text[number.end() :] if number else text
    if kind == "twice":
        return f"{text}\n{text}"
    if kind == "windows":
        return text.replace("\n", "\r\n")
    if kind == "flip":
        return text[:place] + chr(32 + int(size * 95)) + text[place + 1 :]
    return text[:place] + junk + text[place:]


KINDS = ["cut", "behead", "drop", "repeat", "swap", "column", "grow", "twice", "windows", "flip", "insert"]
FRACTION = st.floats(0, 1, exclude_max=True)
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), FRACTION, FRACTION, st.sampled_from(JUNK)), min_size=1, max_size=4)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.name)
@given(steps=STEPS)
@settings(derandomize=True, max_examples=60)
def test_a_mutated_file_is_read_or_refused_in_one_line(tmp_path_factory, fixture, steps):
    text = load(str(fixture))
    for step in steps:
        text = mutated(text, *step)
    path = tmp_path_factory.getbasetemp() / f"fuzz{fixture.suffix}"
    path.write_bytes(text.encode(errors="replace"))

    judged(path)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.name)
@given(steps=STEPS, given=st.sampled_from([(None, None), ("h100", 50 * GB)]))
@settings(derandomize=True, max_examples=20)
def test_what_is_read_becomes_a_graph_under_the_laws_or_one_line(tmp_path_factory, fixture, steps, given):
    text = load(str(fixture))
    for step in steps[:2]:
        text = mutated(text, *step)
    path = tmp_path_factory.getbasetemp() / f"fuzz{fixture.suffix}"
    path.write_bytes(text.encode(errors="replace"))
    try:
        said = topology([str(path)], *given)
    except ValueError as error:
        said = str(error).replace(str(path), path.name)

    assert said.isprintable() if isinstance(said, str) else check(said()) is None


@pytest.mark.parametrize("name", READERS)
def test_every_reader_has_fixtures_that_no_other_reader_claims(name):
    texts = [load(str(fixture)) for fixture in FIXTURES]
    mine = [text for text in texts if reader_of(text) is find(name)]
    others = [module for module in modules() if module is not find(name)]

    assert mine
    assert not any(other.looks_like(text) for other in others for text in mine)


GPUS = [f"GPU{i}" for i in range(1024)]
LARGEST = "\n".join(
    ["\t".join(["", *GPUS, "CPU Affinity"])]
    + ["\t".join([a, *(" X " if a == b else "NV2" for b in GPUS), "0-7"]) for a in GPUS]
)


def many(piece):
    return (piece * (MOST // len(piece) + 1))[:MOST]


@pytest.mark.parametrize(
    "text",
    [
        LARGEST,
        f"{LARGEST[:-400]}\n{many('X    = Self ')}"[:MOST],
        *(f"{many(piece)[:-99]}\nGPU0\nGPU0 X" for piece in ["[1;", "GPU0 X ", "\n \t", "GPU 0: a (UUID"]),
        many("GPU0 GPU1\nGPU0 X NV1\nGPU1 NV1 X\n"),
        many("<system><cpu>"),
        many('vendid=0x1\nSwitch 2 "S-1"\n[1] "H-1"[1]\n'),
        many("topology: [ Ring, [ {"),
    ],
    ids=[
        "largest",
        "largest cut",
        "colours",
        "long row",
        "blank lines",
        "heads",
        "tables",
        "tags",
        "blocks",
        "lists",
    ],
)
def test_32_mib_of_anything_are_done_with_in_five_seconds(tmp_path, text):
    path = tmp_path / "large.txt"
    path.write_text(text, newline="")

    judged(path)
