"""Files that people have: each format is a module of this folder, found by what the text looks like.

What several formats are made of, tables and XML and speeds, is in `text`; `assembly` makes graphs of what files say. A
reader module has `FORMAT`, what its text is called; `looks_like(text) -> bool`, quick and without a doubt; and
`read(text, file) -> Facts`, which raises FileError where the text cannot be used. Adding a file with these adds it to
READERS.
"""

import importlib
from pathlib import Path
from types import ModuleType

from topologies.files.facts import Facts, FileError
from topologies.files.text import load

# A text is of one format only: the first that recognises it reads it.
READERS = tuple(
    sorted(path.stem for path in Path(__file__).parent.glob("*.py") if "\ndef looks_like(" in path.read_text("utf-8"))
)


def read(path: str) -> Facts:
    """Return what a file says, whatever its format.

    Raises:
        FileError: it cannot be read, its format is not known, or it holds no whole document.
    """
    text = load(path)
    for reader in map(find, READERS):
        if reader.looks_like(text):
            facts: Facts = reader.read(text, path)
            return facts
    known = ", ".join(find(name).FORMAT for name in READERS)
    own = "; a cluster of your own says schema: ringloom.cluster/1" if path.endswith((".json", ".yaml", ".yml")) else ""
    raise FileError(path, f"of no known format: expected {known}{own}")


def find(name: str) -> ModuleType:
    """Return a reader, by the name of its module."""
    return importlib.import_module(f"{__name__}.{name}")
