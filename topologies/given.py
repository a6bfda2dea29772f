"""Files where a name is taken: --cluster topo.txt,nvlink.txt and --fabric listing.txt."""

import os
from collections.abc import Sequence

from topologies import Topology
from topologies.fabrics import Fabric, is_own


def is_file(text: str, known: Sequence[str]) -> bool:
    """Tell whether a text names files, and neither something known nor a function in a Python file."""
    if text.strip().partition(":")[0] in known or is_own(text):
        return False
    return _is_there(text) or bool({"/", ".", ","} & set(text.partition(":")[0]))


def topology(text: str, gpu: str | None, nic: float | None) -> Topology:
    """Return what files, separated by commas, describe.

    Args:
        gpu, nic: as of topologies.files.assembly.
    Raises:
        ValueError: as there.
    """
    paths = [text] if _is_there(text) else [path.strip() for path in text.split(",") if path.strip()]
    if not paths:
        raise ValueError(f"--cluster {text} names no file")
    return of_files(paths, gpu, nic)


def of_files(paths: Sequence[str], gpu: str | None, nic: float | None) -> Topology:
    """Return what files describe, as topology does."""
    from topologies.files.assembly import topology as built

    return built(paths, gpu, nic)


def _is_there(path: str) -> bool:
    """Tell whether a path leads to something that can be read: a file, a pipe, a device."""
    return os.path.exists(path) and not os.path.isdir(path)


def fabric(path: str) -> Fabric:
    """Return the network that a file lists, as a fabric.

    Raises:
        ValueError: the file describes something else, or cannot be used.
    """
    from topologies.files import read
    from topologies.files.assembly.network import fabric_of
    from topologies.files.facts import NetworkFacts

    facts = read(path)
    if not isinstance(facts, NetworkFacts):
        raise ValueError(f"--fabric {path}: {facts.format} lists no network; ibnetdiscover does")
    return fabric_of(facts)
