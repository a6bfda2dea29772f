"""Logs of NCCL_DEBUG=INFO: they say how the library joined the ranks, and nothing of how long anything took."""

import re

from topologies.files.facts import FileError
from topologies.logs.records import Log

FORMAT = "NCCL_DEBUG=INFO log"
_LINE = re.compile(r"\bNCCL (?:INFO|WARN|TRACE|VERSION)\b")


def looks_like(text: str) -> bool:
    """Tell whether a text has lines of the library."""
    return _LINE.search(text) is not None


def read(text: str, file: str) -> Log:
    """Refuse a log of the library.

    Raises:
        FileError: always.
    """
    raise FileError(file, "is a log of NCCL_DEBUG=INFO, which holds no timings: give the output of nccl-tests")
