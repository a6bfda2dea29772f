"""Logs that people have of their communication: each format is a module of this folder, known by what the text holds.

A reader module has `FORMAT`, what its text is called; `looks_like(text) -> bool`, quick; and `read(text, file) -> Log`,
which raises FileError where the text holds no sound measurement. Adding a file with these adds it to READERS.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from topologies.files.facts import FileError
from topologies.files.text import load
from topologies.logs.records import Log

# A text is of one format only: the first that recognises it reads it.
READERS = tuple(
    sorted(path.stem for path in Path(__file__).parent.glob("*.py") if "\ndef looks_like(" in path.read_text("utf-8"))
)


def read(path: str) -> Log:
    """Return what a file says, whatever its format.

    Raises:
        FileError: it cannot be read, its format is not known, or it holds no sound measurement.
    """
    text = load(path)
    for reader in map(find, READERS):
        if reader.looks_like(text):
            log: Log = reader.read(text, path)
            return log
    known = ", ".join(find(name).FORMAT for name in READERS)
    raise FileError(path, f"of no known format: expected {known}")


def read_all(paths: Sequence[str]) -> list[Log]:
    """Return what files say; of files that the ranks of one job wrote, one log with what all of them say.

    Raises:
        FileError: as of read.
    """
    from topologies.logs.together import together

    logs = [read(path) for path in dict.fromkeys(paths)]
    by_rank = [log for log in logs if log.rank is not None]
    rest = [log for log in logs if log.rank is None]
    return [*rest, *together(by_rank)] if by_rank else rest


def find(name: str) -> ModuleType:
    """Return a reader, by the name of its module."""
    return importlib.import_module(f"{__name__}.{name}")


__all__ = ["READERS", "Log", "find", "read", "read_all"]
