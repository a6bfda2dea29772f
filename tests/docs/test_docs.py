"""Every example in docs/ runs and prints what the page shows.

A page's ```python blocks share a namespace and an empty folder; one that begins with `# name.py` is a file there, of
a namespace of its own. A ```text block right after one is what it prints. In a ```console block, lines that begin with
`$ ringloom` or `$ mpiexec` are commands and the lines after each are its output. `...` stands for anything in a line,
a line of its own for any lines; an error as a share of its bound is compared to one digit.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
BIN = Path(sys.executable).parent
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = ("ringloom", "ringloom-run", "mpiexec")
PROGRESS = re.compile(r"^ringloom: \w+: +\d+%, .*\n", re.MULTILINE)  # said when a machine is slow
SHARE = re.compile(r"\b(0\.0)\d{2,}\b")  # an error as a share of its bound: its last digits are the processor's
FILE = re.compile(r"# ([\w/]+\.py)\n")
COMMAND = re.compile(r"^\$ ((?:ringloom|mpiexec).*)\n((?:(?!\$ ).*\n?)*)", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block: its language, its text, the line it starts on, and whether it follows the one before."""

    language: str
    text: str
    line: int
    follows: bool


def blocks(page):
    found, end = [], 0
    for match in FENCE.finditer(page):
        follows = not page[end : match.start()].strip()
        found.append(Block(match[1], match[2], page.count("\n", 0, match.start()) + 1, follows))
        end = match.end()
    return found


def shown(block, after):
    """The output that a page shows for a block, or None."""
    return after.text if block.language == "python" and after.language == "text" and after.follows else None


def pattern(line):
    if line.strip() == "...":
        return "(?s:.*)"
    return "[^\n]*".join(re.escape(part) for part in SHARE.sub(r"\1", line.rstrip()).split("..."))


def matches(printed, expected):
    lines = (SHARE.sub(r"\1", line.rstrip()) for line in printed.strip().splitlines())
    return re.fullmatch("\n".join(map(pattern, expected.strip().splitlines())), "\n".join(lines)) is not None


def run_python(block, namespace, name):
    if header := FILE.match(block.text):
        Path(header[1]).write_text(block.text, encoding="utf-8")
        namespace = {"__name__": Path(header[1]).stem}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * block.line + block.text, name, "exec"), namespace)
    return printed.getvalue()


def run_command(command):
    program, *args = (str(BIN / word) if word in PROGRAMS else word for word in shlex.split(command))
    plain = os.environ | {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run([program, *args], capture_output=True, text=True, env=plain, timeout=120)
    return done.stdout + PROGRESS.sub("", done.stderr)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_run_and_print_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    namespace = {"__name__": f"docs_{page.stem}"}
    nothing = Block("", "", 0, False)
    for block, after in pairwise([*blocks(page.read_text(encoding="utf-8")), nothing]):
        where = f"{page.name}:{block.line}"
        if block.language == "python":
            printed = run_python(block, namespace, page.name)
            expected = shown(block, after)
            assert expected is None or matches(printed, expected), f"{where} prints\n{printed}"
        elif block.language == "console":
            for command, expected in COMMAND.findall(block.text):
                if command.startswith("mpiexec") and not (BIN / "mpiexec").exists():
                    pytest.skip("no mpiexec beside this Python: install ringloom[mpi]")
                printed = run_command(command)
                assert matches(printed, expected), f"{where}: {command} prints\n{printed}"


def test_a_page_that_shows_something_else_would_fail():
    page = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    block, after = blocks(page)

    assert not matches(run_python(block, {}, "page"), shown(block, after))
    assert matches(run_python(block, {}, "page"), "2")
    assert matches("took 31 ms\nsize 4", "took ... ms\nsize 4")
    assert not matches("took 31 ms\nsize 5", "took ... ms\nsize 4")
    assert matches("first\nsecond\nthird\nlast", "first\n  ...\nlast")
    assert not matches("first\nsecond\nthird", "first\n...\nlast")
    assert matches("error 0.0311 ok", "error 0.0298 ok")
    assert not matches("error 0.311 ok", "error 0.0298 ok")


def test_a_page_can_hold_several_commands():
    block = "$ ringloom --version\nringloom 0.1.0\n$ ringloom topology list\na\nb\n"

    assert COMMAND.findall(block) == [("ringloom --version", "ringloom 0.1.0\n"), ("ringloom topology list", "a\nb\n")]


def laws(text):
    return {int(number) for number in re.findall(r"\bS(\d+)\b", text)}


def test_the_laws_that_messages_name_are_the_laws_that_the_notation_lists():
    code = "".join(path.read_text(encoding="utf-8") for path in (DOCS.parent / "algorithms").rglob("*.py"))
    listed = re.findall(r"^\| S(\d+) \|", (DOCS / "notation.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert [int(number) for number in listed] == list(range(1, 13))
    assert laws("".join(re.findall(r'"S\d+: ', code))) == set(range(1, 13))
