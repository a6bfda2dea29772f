"""Logs of NCCL_DEBUG=INFO: they say how the library joined the ranks, and nothing of how long anything took."""

import re

from topologies.files.facts import FileError
from topologies.logs import bench_table, nccl_tests, osu
from topologies.logs.records import Log

FORMAT = "NCCL_DEBUG=INFO log"
_LINE = re.compile(r"\bNCCL (?:INFO|WARN|TRACE|VERSION)\b")


def looks_like(text: str) -> bool:
    """Tell whether a text has lines of the library, and is not the log of a test in which they stand too."""
    return _LINE.search(text) is not None and not any(tool.looks_like(text) for tool in (nccl_tests, osu, bench_table))


def read(text: str, file: str) -> Log:
    """Refuse a log of the library.

    Raises:
        FileError: always.
    """
    raise FileError(file, "is a log of NCCL_DEBUG=INFO, which holds no timings: give the output of nccl-tests")
