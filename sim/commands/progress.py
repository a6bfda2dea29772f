"""Progress on stderr: a bar on a terminal, else a plain line every few seconds."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

SECONDS = 3.0  # between two plain lines
COMPILING = "a first run compiles the engine"
Progress = Callable[[float, str], None]


@contextlib.contextmanager
def progress(title: str) -> Iterator[Progress]:
    """Give a function that takes the share done and what is being done."""
    start = "starting" if is_compiled() else COMPILING
    with _bar(title, start) if sys.stderr.isatty() else _lines(title, start) as report:
        yield lambda share, what: report(share, what if share or start != COMPILING else f"{what}; {start}")


def is_compiled() -> bool:
    """Whether an earlier run has left the compiled engine on disk, where numba keeps it."""
    folder = os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parents[1] / "__pycache__"
    return any(Path(folder).rglob("*.nbi"))


@contextlib.contextmanager
def _bar(title: str, start: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(title),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(start, total=1.0)
        yield lambda share, what: bar.update(task, completed=share, description=what)


@contextlib.contextmanager
def _lines(title: str, start: str) -> Iterator[Progress]:
    latest = [0.0, start]
    over = threading.Event()

    def report() -> None:
        said = ""
        while not over.wait(SECONDS):
            line = f"ringloom: {title}: {latest[0]:.0%}, {latest[1]}"
            if line != said:
                print(line, file=sys.stderr, flush=True)
            said = line

    def note(share: float, what: str) -> None:
        latest[:] = [share, what]

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield note
    finally:
        over.set()
        thread.join()
