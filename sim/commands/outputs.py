"""Files that a command is to write."""

import os


def fault(path: str) -> str:
    """Why a file cannot be written; empty if nothing is known against it."""
    folder = os.path.dirname(os.path.abspath(path))
    if not path or os.path.isdir(path):
        return "is a folder"
    if not os.path.isdir(folder):
        return "is in no folder that exists"
    try:
        os.stat(path)
    except FileNotFoundError:
        return "" if os.access(folder, os.W_OK) else "is in a folder that cannot be written"
    except OSError as error:
        return f"cannot be written: {error.strerror}"
    return ""
