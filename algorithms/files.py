"""Files that people give: one JSON object, read with every fault said in a line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

LARGEST_FILE = 2**24  # bytes
Pairs = Callable[[list[tuple[str, Any]]], Any]


def json_object(path: str | Path, what: str, *, hint: str = "", pairs: Pairs | None = None) -> dict[str, Any]:
    """Read a file that holds one JSON object.

    Args:
        what: what the file is meant to be. hint: what may be done where it cannot be read.
        pairs: makes an object of its (name, value) pairs, as in `json.loads`.
    Raises:
        ValueError: there is no such file, it is too large, or it holds something else.
    """
    if os.path.isdir(path):
        raise ValueError(f"{path} is a folder: name the {what} in it")
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE + 1)  # of a device there is no end
    except OSError as error:
        raise ValueError(f"cannot read {what} {path}: {error.strerror or error}{hint}") from error
    if len(content) > LARGEST_FILE:
        raise ValueError(f"{path} is no {what}: it has more than {LARGEST_FILE} bytes")
    try:
        found = json.loads(content, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {str(error).partition(chr(10))[0]}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is no {what}: it holds no JSON object")
    return found


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object, and refuse a name that stands in it twice."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} stands twice in one object")
        found[name] = value
    return found
