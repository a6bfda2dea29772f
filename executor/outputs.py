"""Files to be written: looked at before the work, so that hours are not spent on a folder that is not there."""

from __future__ import annotations

import os
from pathlib import Path

from executor.errors import BadInput


def output(option: str, name: str) -> Path:
    """Return the path of a file that an option names.

    Raises:
        BadInput: it cannot be written.
    """
    path = Path(name)
    if not name or not path.parent.is_dir() or path.is_dir() or not os.access(path.parent, os.W_OK):
        raise BadInput(f"{option} {name} cannot be written")
    return path
