"""ASTRA-sim's networks: the YAML of its analytical model, and the JSON of logical dimensions for its ns-3 model.

A network is a product of dimensions, the first of which is innermost: two NPUs whose coordinates differ in one
dimension only share a ring, a switch or a full connection of that dimension. bandwidth is GB/s of one link in one
direction, latency ns of one link; a path through a switch has two links.
"""

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topologies.files.facts import ClusterFacts, FileError
from topologies.files.text.plain_yaml import Lines, load
from topologies.files.text.wording import Remarks, shown
from topologies.units import GB, ns

if TYPE_CHECKING:
    import networkx as nx

FORMAT = "ASTRA-sim network"
KEYS = ("topology", "npus_count", "bandwidth", "latency")
MOST_NPUS = 2**18
MOST_LINKS = 2_000_000  # in one direction
MOST_DIMENSIONS = 10
_YAML = re.compile(r"""^[ \t]{0,8}["']?npus_count["']?[ \t]{0,8}:""", re.MULTILINE)
_JSON = re.compile(r'"logical-dims"\s{0,20}:')

SHAPES = ("Ring", "Switch", "FullyConnected")
_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "topology": (f"one of {', '.join(SHAPES)}", lambda value: value in SHAPES),
    "npus_count": (
        f"a whole number from 1 to {MOST_NPUS}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_NPUS,
    ),
    "bandwidth": ("a number of GB/s above 0", lambda value: _is_number(value) and 1e-9 <= value <= 1e15),
    "latency": ("a number of ns, 0 or more", lambda value: _is_number(value) and 0 <= value <= 3.6e12),
}


@dataclass(frozen=True)
class Dimension:
    """One dimension: its shape, size, and bytes/s in one direction and seconds of one link (None: not said)."""

    shape: str
    size: int
    bandwidth: float | None
    latency: float | None

    def links(self) -> int:
        """Return how many links, counted in one direction, a group of this dimension has."""
        both_ways = {"Switch": self.size, "FullyConnected": self.size * (self.size - 1) // 2}
        return 2 * both_ways.get(self.shape, self.size if self.size > 2 else 1) if self.size > 1 else 0


def looks_like(text: str) -> bool:
    """Tell whether a text is a network of ASTRA-sim's."""
    return _YAML.search(text) is not None or _JSON.search(text) is not None


def read(text: str, file: str) -> ClusterFacts:
    """Return the graph of a network: nodes gpu<coordinates> in rank order, and switches.

    Speeds that the text does not say are None; the speed of a GPU is never said.

    Raises:
        FileError: a key is missing, or a value is not what it should be.
    """
    remarks = Remarks()
    dimensions = _logical(text, file, remarks) if _JSON.search(text) else _analytical(text, file, remarks)
    npus = math.prod(dimension.size for dimension in dimensions)
    if npus > MOST_NPUS:
        raise FileError(file, f"has {npus:,} NPUs: at most {MOST_NPUS:,} are read")
    links = sum(npus // dimension.size * dimension.links() for dimension in dimensions)
    if links > MOST_LINKS:
        raise FileError(file, f"has {links:,} links: at most {MOST_LINKS:,} are read")
    remarks.add("the speed of an NPU (flop_rate) is not said")
    return ClusterFacts(file, FORMAT, _graph(dimensions, file), remarks.lines())


def _analytical(text: str, file: str, remarks: Remarks) -> list[Dimension]:
    """Read the YAML of the analytical model."""
    said, lines = load(text, file)
    if not isinstance(said, dict):
        raise FileError(file, f"is no mapping with the keys {', '.join(KEYS)}")
    missing = [key for key in KEYS if key not in said]
    if missing:
        raise FileError(file, f"has no {missing[0]}: expected the keys {', '.join(KEYS)}")
    for key in said:
        if key not in KEYS:
            remarks.add("key that is not read", f"{shown(key)[1:-1]} in line {lines.of(key)}")
    for key in KEYS:
        if not isinstance(said[key], list) or not said[key]:
            raise FileError(file, f"{key} is {shown(said[key])}: expected a list, one value a dimension", lines.of(key))
        if len(said[key]) != len(said[KEYS[0]]):
            wrong = f"{key} has {len(said[key])} values, {KEYS[0]} has {len(said[KEYS[0]])}: expected one a dimension"
            raise FileError(file, wrong, lines.of(key))
    _few(len(said[KEYS[0]]), file, lines.of(KEYS[0]))
    columns = [_column(said, key, file, lines) for key in KEYS]
    remarks.add("bandwidth is read as GB/s and latency as ns of one link in one direction, as the format has them")
    if any(shape == "Switch" for shape in said["topology"]):
        remarks.add("a path through a Switch has two links: each has the latency of a link")
    return [
        Dimension(shape, size, bandwidth * GB, latency * ns)
        for shape, size, bandwidth, latency in zip(*columns, strict=True)
    ]


def _column(said: dict[str, Any], key: str, file: str, lines: Lines) -> list[Any]:
    """Return the values of a key, checked."""
    expected, is_right = _RULES[key]
    for i, value in enumerate(said[key]):
        if not is_right(value):
            raise FileError(file, f"{key}[{i}] is {shown(value)}: expected {expected}", lines.of(key, i))
    values: list[Any] = said[key]
    return values


def _is_number(value: object) -> bool:
    """Tell whether a value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _logical(text: str, file: str, remarks: Remarks) -> list[Dimension]:
    """Read the JSON of logical dimensions, which has sizes only."""
    try:
        said = json.loads(text)
    except json.JSONDecodeError as error:
        raise FileError(file, f"is no JSON: {error.msg}", error.lineno) from None
    except (RecursionError, ValueError):
        raise FileError(file, "is no JSON of logical dimensions: nested too deep, or a number too long") from None
    sizes = said.get("logical-dims") if isinstance(said, dict) else None
    if not isinstance(sizes, list) or not sizes:
        raise FileError(file, f"logical-dims is {shown(sizes)}: expected a list of sizes")
    _few(len(sizes), file, None)
    for i, size in enumerate(sizes):
        if not re.fullmatch("[1-9][0-9]{0,6}", str(size)[:20]) or int(size) > MOST_NPUS or isinstance(size, float):
            wrong = f"logical-dims[{i}] is {shown(size)}: expected a whole number from 1 to {MOST_NPUS}"
            raise FileError(file, wrong)
    remarks.add("says sizes only: neither bandwidth, nor latency, nor how the NPUs of a dimension are joined")
    remarks.add("each group of a dimension is read as one switch")
    return [Dimension("Switch", int(size), None, None) for size in sizes]


def _few(dimensions: int, file: str, line: int | None) -> None:
    """Check that there are not more dimensions than any network has."""
    if dimensions > MOST_DIMENSIONS:
        raise FileError(file, f"has {dimensions} dimensions: at most {MOST_DIMENSIONS} are read", line)


def _graph(dimensions: list[Dimension], file: str) -> "nx.DiGraph":
    """Return the product of dimensions, the first of which counts fastest."""
    import networkx as nx

    shape = "_".join(dimension.shape for dimension in dimensions)
    sizes = "x".join(str(dimension.size) for dimension in dimensions)
    graph = nx.DiGraph(name=f"{shape}({sizes})", sources={}, assumptions=[])
    if all(dimension.bandwidth is not None for dimension in dimensions):
        graph.graph["sources"] = dict.fromkeys(("link.bandwidth", "link.latency"), Path(file).name)
    ranges = [range(dimension.size) for dimension in reversed(dimensions)]
    coordinates = [coordinate[::-1] for coordinate in itertools.product(*ranges)]
    names = [f"gpu{'.'.join(map(str, coordinate))}" for coordinate in coordinates]
    graph.add_nodes_from((name, {"kind": "gpu", "rank": rank, "host": name}) for rank, name in enumerate(names))
    stride = 1
    for d, dimension in enumerate(dimensions):
        if dimension.size == 1:
            continue
        facts = {"kind": "link", "bandwidth": dimension.bandwidth, "latency": dimension.latency, "offloaded": True}
        for group, first in enumerate(_firsts(len(names), stride, dimension.size)):
            members = names[first : first + stride * dimension.size : stride]
            switch = f"switch{d}.{group}"
            if dimension.shape == "Switch":
                graph.add_node(switch, kind="switch")
            pairs = _pairs(dimension.shape, members, switch)
            graph.add_edges_from((edge for a, b in pairs for edge in ((a, b), (b, a))), **facts)
        stride *= dimension.size
    return graph


def _firsts(npus: int, stride: int, size: int) -> Iterator[int]:
    """Yield the first NPU of each group of a dimension."""
    return (block + offset for block in range(0, npus, stride * size) for offset in range(stride))


def _pairs(shape: str, members: list[str], switch: str) -> Iterator[tuple[str, str]]:
    """Yield the cables of one group of two or more; a ring of two has one."""
    if shape == "Switch":
        return ((member, switch) for member in members)
    if shape == "FullyConnected":
        return itertools.combinations(members, 2)
    return zip(members, members[1:] + members[:1] if len(members) > 2 else members[1:], strict=False)
