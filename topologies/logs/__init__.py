"""Logs that people have of their communication: each format is a module of this folder, known by what the text holds.

A reader module has `FORMAT`, what its text is called; `looks_like(text) -> bool`, quick; and `read(text, file) -> Log`,
which raises FileError where the text holds no sound measurement.
"""

import importlib
from collections.abc import Sequence
from types import ModuleType

from topologies.files.facts import FileError
from topologies.files.text import load
from topologies.logs.records import Log

# In this order: the first that recognises a text reads it. A log of a test holds the library's own lines too.
READERS = ("kineto", "msccl", "nccl_tests", "osu", "bench_table", "nccl_log")


def read(path: str) -> Log:
    """Return what a file says, whatever its format.

    Raises:
        FileError: it cannot be read, its format is not known, or it holds no sound measurement.
    """
    text = load(path)
    for reader in map(_module, READERS):
        if reader.looks_like(text):
            log: Log = reader.read(text, path)
            return log
    known = ", ".join(_module(name).FORMAT for name in READERS)
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


def _module(name: str) -> ModuleType:
    """Import a reader."""
    return importlib.import_module(f"{__name__}.{name}")


__all__ = ["READERS", "Log", "read", "read_all"]
