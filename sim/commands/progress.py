"""Progress on stderr: a bar on a terminal, else a plain line every few seconds."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

SECONDS = 3.0  # between two plain lines
START = "a first run compiles the engine"
Progress = Callable[[float, str], None]


@contextlib.contextmanager
def progress(title: str) -> Iterator[Progress]:
    """Give a function that takes the share done and what is being done."""
    with _bar(title) if sys.stderr.isatty() else _lines(title) as report:
        yield lambda share, what: report(share, what if share else f"{what}; {START}")


@contextlib.contextmanager
def _bar(title: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(title),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(START, total=1.0)
        yield lambda share, what: bar.update(task, completed=share, description=what)


@contextlib.contextmanager
def _lines(title: str) -> Iterator[Progress]:
    latest = [0.0, START]
    over = threading.Event()

    def report() -> None:
        while not over.wait(SECONDS):
            print(f"ringloom: {title}: {latest[0]:.0%}, {latest[1]}", file=sys.stderr, flush=True)

    def note(share: float, what: str) -> None:
        latest[:] = [share, what]

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield note
    finally:
        over.set()
        thread.join()
