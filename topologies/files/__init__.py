"""Files that people have: each format is a module of this folder, found by what the text looks like.

What several formats are made of, tables and XML and speeds, is in `text`; `assembly` makes graphs of what files say. A
reader module has `FORMAT`, what its text is called; `looks_like(text) -> bool`, quick and without a doubt; and
`read(text, file) -> Facts`, which raises FileError where the text cannot be used.
"""

import importlib
from types import ModuleType

from topologies.files.facts import Facts, FileError
from topologies.files.text import load

# In this order: the first that recognises a text reads it.
READERS = (
    "nccl_topo",
    "nccl_graph",
    "graphs",
    "astra_network",
    "ibnetdiscover",
    "rocm_topo",
    "nvidia_topo",
    "nvlink_status",
)


def read(path: str) -> Facts:
    """Return what a file says, whatever its format.

    Raises:
        FileError: it cannot be read, its format is not known, or it holds no whole document.
    """
    text = load(path)
    for reader in map(_module, READERS):
        if reader.looks_like(text):
            facts: Facts = reader.read(text, path)
            return facts
    known = ", ".join(_module(name).FORMAT for name in READERS)
    raise FileError(path, f"of no known format: expected {known}")


def _module(name: str) -> ModuleType:
    """Import a reader."""
    return importlib.import_module(f"{__name__}.{name}")
