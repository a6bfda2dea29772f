"""Clusters in files of our own: JSON, YAML and GraphML, written and read back equal.

JSON and YAML hold one document, in which links share classes so that a number to change stands once:

    schema: ringloom.cluster/1
    name: two
    classes:
      nvlink: {kind: nvlink, bandwidth: 4.5e+11, latency: 5.0e-07, offloaded: true}
    nodes:
      gpu0: {kind: gpu, rank: 0, flop_rate: 9.894e+14}
      gpu1: {kind: gpu, rank: 1, flop_rate: 9.894e+14}
    cables:
      gpu0: {gpu1: nvlink}

`links` are one direction, `cables` both. What else stands at the top (sources, assumptions, fabric, routing) belongs to
the graph. A speed may be left out: whoever builds the cluster assumes it, and says so.

One machine with NICs, of one host or of several joined without a network, can be had many times. What its NICs are made
of is `network: {bandwidth: 5.0e+10}`, with latency and switch_latency if these are known.
"""

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from topologies.files import graphml
from topologies.files.document import SCHEMA, document, from_json, from_yaml
from topologies.files.facts import ClusterFacts, FileError
from topologies.files.finish import finished
from topologies.files.text import MOST
from topologies.files.text.markup import first_tag
from topologies.files.text.wording import Remarks
from topologies.files.text.writing import as_json, as_yaml
from topologies.garbage import uncollected

if TYPE_CHECKING:
    import networkx as nx

FORMAT = "ringloom cluster (JSON, YAML, GraphML)"
SUFFIXES = (".json", ".yaml", ".yml", ".graphml")
_SCHEMA = re.compile(r"""["']?schema["']?\s{0,20}:\s{0,20}["']?ringloom\.cluster/""")


def looks_like(text: str) -> bool:
    """Tell whether a text is a cluster of our own."""
    return _SCHEMA.search(text) is not None or _is_graphml(text)


def read(text: str, file: str) -> ClusterFacts:
    """Return the cluster that a text of our own describes.

    Raises:
        FileError: it is not of its format, or breaks a law of topologies.
    """
    remarks = Remarks()
    with uncollected():
        if text[:1000].lstrip()[:1] == "{":
            graph = from_json(text, file, remarks)
        elif _is_graphml(text):
            graph = graphml.read(text, file, remarks)
        else:
            graph = from_yaml(text, file, remarks)
        return finished(graph, file, FORMAT, remarks)


def _is_graphml(text: str) -> bool:
    """Tell whether a text is GraphML, or a piece of it; NCCL has another <graph>."""
    name = first_tag(text).removeprefix("/")
    return name == "graphml" or (name == "graph" and "edgedefault" in text[:10_000])


def write(graph: "nx.DiGraph", path: str) -> None:
    """Write a cluster to a file; the suffix says how: .json, .yaml, .yml or .graphml.

    The file appears whole or not at all: another is written beside it and renamed. A device or a pipe is written into.

    Raises:
        ValueError: another suffix, a value that a file cannot hold, or a file larger than is read.
        FileError: the file cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"a cluster file ends in {', '.join(SUFFIXES)}: got {path!r}")
    if suffix == ".graphml":
        text = graphml.written(graph)
    else:
        text = (as_json if suffix == ".json" else as_yaml)(document(graph))
    data = text.encode()
    if len(data) > MOST:
        larger = "" if suffix == ".json" else "; .json takes less"
        raise ValueError(
            f"{path} would have {len(data) // 2**20} MiB, more than the {MOST // 2**20} that is read{larger}"
        )
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            _replace(target, data)
    except OSError as error:
        raise FileError(path, f"cannot be written: {error.strerror or error}") from None


def _replace(path: Path, data: bytes) -> None:
    """Put data in place of a file, whole."""
    handle, beside = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(beside).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """Return the bits that new files are not given."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


__all__ = ["FORMAT", "SCHEMA", "looks_like", "read", "write"]
