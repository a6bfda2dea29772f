"""A cluster as a file gives it, held to the laws of topologies as far as the file goes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topologies.files.facts import ClusterFacts, FileError
from topologies.files.text.wording import Remarks, shown

if TYPE_CHECKING:
    import networkx as nx

LONGEST = 1000  # characters of a name


def finished(graph: "nx.DiGraph", file: str, form: str, remarks: Remarks) -> ClusterFacts:
    """Return the facts of a cluster.

    The file is the source of the numbers for which it names none. A number that is missing, or null, is left out and
    noted; all else must keep the laws.

    Raises:
        FileError: it does not.
    """
    from topologies import laws

    if "name" not in graph.graph:
        graph.graph["name"] = Path(file).name.partition(".")[0] or "cluster"
        remarks.add(f"name is not said: it is called {shown(graph.graph['name'])} after the file")
    for name in (graph.graph["name"], *graph):
        if isinstance(name, str) and len(name) > LONGEST:
            raise FileError(file, f"a name has at most {LONGEST} characters: {shown(name)} has {len(name)}")
    graph.graph.setdefault("sources", {})
    graph.graph.setdefault("assumptions", [])
    for a, b, data in graph.edges(data=True):
        if "offloaded" not in data:
            data["offloaded"] = True
            remarks.add(
                "offloaded is not said: a copy engine or NIC drives the link, as is usual", f"{shown(a)} -> {shown(b)}"
            )
    said = _said(graph)
    with _filled(graph, remarks):
        try:
            ours = laws.unaccounted(graph)
            graph.graph["sources"] |= dict.fromkeys(ours, Path(file).name)
            laws.check(graph)
        except ValueError as error:
            raise FileError(file, " ".join(str(error).split())[:500]) from None
    for fact in ours:
        if fact not in said:
            del graph.graph["sources"][fact]
    return ClusterFacts(file, form, graph, remarks.lines())


def _said(graph: "nx.DiGraph") -> set[str]:
    """Name the kinds of number of which the file says at least one."""
    nodes = [(data, ("flop_rate", "memory", "memory_bandwidth")) for _, data in graph.nodes(data=True)]
    links = [(data, ("bandwidth", "latency")) for _, _, data in graph.edges(data=True)]
    return {f"{data.get('kind')}.{key}" for data, keys in (*nodes, *links) for key in keys if data.get(key) is not None}


@contextmanager
def _filled(graph: "nx.DiGraph", remarks: Remarks) -> Iterator[None]:
    """Put stand-ins in place of missing numbers, and take them out again afterwards."""
    empty: list[tuple[dict[str, Any], str, bool]] = []  # attributes, key, whether it is there as null
    for name, data in graph.nodes(data=True):
        if data.get("flop_rate") is None and data.get("kind") == "gpu":
            remarks.add("flop_rate is not said", shown(name)[1:-1])
            empty.append((data, "flop_rate", "flop_rate" in data))
            data["flop_rate"] = 1.0
    for a, b, data in graph.edges(data=True):
        for key, stand_in in (("bandwidth", 1.0), ("latency", 0.0)):
            if data.get(key) is None:
                remarks.add(f"{key} of a link is not said", f"{shown(a)} -> {shown(b)}")
                empty.append((data, key, key in data))
                data[key] = stand_in
    try:
        yield
    finally:
        for data, key, is_null in empty:
            if is_null:
                data[key] = None
            else:
                del data[key]
