"""Algorithms of MSCCL in XML: they say who sends what when, and nothing of how long anything took."""

import re

from topologies.files.facts import FileError
from topologies.files.text.markup import first_tag
from topologies.logs.records import Log

FORMAT = "MSCCL algorithm (XML)"


def looks_like(text: str) -> bool:
    """Tell whether a text is an algorithm of MSCCL."""
    return first_tag(text) == "algo"


def read(text: str, file: str) -> Log:
    """Refuse an algorithm.

    Raises:
        FileError: always.
    """
    name = re.search(r"<algo\b[^>]{0,2000}?\bname=\"([\w.-]{1,40})\"", text)
    what = f"is the MSCCL algorithm{f' {name[1]}' if name else ''}"
    raise FileError(file, f"{what}, which holds no timings: give the output of nccl-tests run with it")
