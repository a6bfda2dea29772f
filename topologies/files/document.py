"""A cluster as one document of mappings, and a document read from JSON and from YAML.

Links with the same attributes are of one class. The order of nodes, and of the links of each node, is kept.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from topologies.files.facts import FileError
from topologies.files.text.plain_yaml import Lines, load
from topologies.files.text.wording import Remarks, shown

if TYPE_CHECKING:
    import networkx as nx

SCHEMA = "ringloom.cluster/1"
PARTS = ("schema", "classes", "nodes", "cables", "links")
GRAPH_KEYS = (
    *("name", "sources", "assumptions", "fabric", "routing", "network", "left_out", "notes", "warnings"),
    *("costs", "measured"),
)
MOST_VALUES = 4_000_000  # of a JSON text
MOST_NODES, MOST_LINKS = 150_000, 1_100_000  # read in seconds; 16,384 H100s have 35,000 and 98,000


def document(graph: "nx.DiGraph") -> dict[str, Any]:
    """Return a cluster as a document.

    Raises:
        ValueError: an attribute is not of the kinds that a document holds, or has a name of a part of the document.
    """
    few(len(graph), graph.number_of_edges(), str(graph.graph.get("name")))
    where = "the graph"
    taken = next((key for key in graph.graph if key in PARTS), None)
    if taken:
        raise ValueError(f"an attribute of a graph cannot be called {taken!r} in a cluster file")
    top = {"schema": SCHEMA} | {key: plain(value, key, where) for key, value in graph.graph.items()}
    nodes = {name: _attributes(data, name) for name, data in graph.nodes(data=True)}
    wrong = next((name for name in nodes if not isinstance(name, str)), None)
    if wrong is not None:
        raise ValueError(f"the name of a node is a text: got {shown(wrong)}")
    names: dict[str, str] = {}
    classes: dict[str, dict[str, Any]] = {}
    links: dict[str, dict[str, str]] = {}
    for tail, heads in graph.adjacency():
        for head, data in heads.items():
            # As text, because 1, 1.0 and True are equal as keys.
            key = repr(data)
            if key not in names:
                names[key] = _free(str(data.get("kind", "link")), classes)
                classes[names[key]] = _attributes(data, f"{tail} -> {head}")
            links.setdefault(tail, {})[head] = names[key]
    return top | {"classes": classes, "nodes": nodes, "links": links}


def plain(value: Any, key: object, where: str) -> Any:
    """Return a value as a document holds it: text, number, true or false, null, list or mapping of texts.

    Raises:
        ValueError: it is another.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, float | int):
        return float(value) if isinstance(value, float) else int(value)
    if isinstance(value, list):
        return [plain(item, key, where) for item in value]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: plain(item, key, where) for name, item in value.items()}
    if type(value).__module__ == "numpy" and hasattr(value, "item") and not getattr(value, "shape", ()):
        return value.item()
    raise ValueError(f"a cluster file holds texts, numbers, lists and mappings: {key} of {where} is {shown(value)}")


def _attributes(data: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Return the attributes of a node or link."""
    for key in data:
        if not isinstance(key, str):
            raise ValueError(f"the name of an attribute is a text: {where} has {shown(key)}")
    return {key: plain(value, key, where) for key, value in data.items()}


def _free(name: str, taken: Mapping[str, object]) -> str:
    """Return name, or name.2 and so on where it is taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}.{number}"
    return free


def from_json(text: str, file: str, remarks: Remarks) -> "nx.DiGraph":
    """Return the cluster of a JSON document.

    Raises:
        FileError: it is no JSON, has a key twice, or is no cluster.
    """
    if sum(map(text.count, ",[{")) > MOST_VALUES:
        raise FileError(file, f"holds more than {MOST_VALUES:,} values")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise FileError(file, f"{shown(twice)} is there twice in one mapping")
        return found

    def refused(constant: str) -> float:
        raise FileError(file, f"{constant} is no number of JSON")

    try:
        whole = json.loads(text, object_pairs_hook=once, parse_constant=refused)
    except json.JSONDecodeError as error:
        raise FileError(file, f"is no whole JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise FileError(file, "is nested too deep") from None
    except FileError:
        raise
    except ValueError:
        raise FileError(file, "holds a number of too many digits") from None
    return _graph(whole, Lines(), file, remarks)


def from_yaml(text: str, file: str, remarks: Remarks) -> "nx.DiGraph":
    """Return the cluster of a YAML document.

    Raises:
        FileError: it is no plain YAML, or is no cluster.
    """
    whole, lines = load(text, file)
    return _graph(whole, lines, file, remarks)


def _graph(whole: Any, lines: Lines, file: str, remarks: Remarks) -> "nx.DiGraph":
    """Return the cluster of a document."""
    import networkx as nx

    if not isinstance(whole, dict) or whole.get("schema") != SCHEMA:
        schema = whole.get("schema") if isinstance(whole, dict) else None
        raise FileError(file, f"schema is {shown(schema)}: this version reads {SCHEMA}", lines.of("schema"))
    for key in whole:
        if key not in PARTS and key not in GRAPH_KEYS:
            remarks.add("key that only the graph keeps", shown(key)[1:-1])
    graph = nx.DiGraph()
    graph.graph.update((key, value) for key, value in whole.items() if key not in PARTS)
    nodes = _mapping(whole, "nodes", file, lines)
    few(len(nodes), 0, file)
    for name, data in nodes.items():
        if not isinstance(data, dict):
            raise FileError(file, f"node {shown(name)} is {shown(data)}: expected a mapping", lines.of("nodes", name))
        graph.add_nodes_from([(name, data)])
    classes = _mapping(whole, "classes", file, lines)
    links = 0
    for part, ways in (("cables", 2), ("links", 1)):
        for tail, heads in _mapping(whole, part, file, lines).items():
            if not isinstance(heads, dict):
                wrong = f"{part} of {shown(tail)} are {shown(heads)}: expected a mapping of nodes to classes"
                raise FileError(file, wrong, lines.of(part, tail))
            links += ways * len(heads)
            few(0, links, file)
            try:
                _add(graph, tail, heads, classes, ways)
            except ValueError as error:
                raise FileError(file, str(error), lines.of(part, tail)) from None
    return graph


def few(nodes: int, links: int, file: str) -> None:
    """Check that a cluster is not larger than is read in seconds.

    Raises:
        FileError: it is.
    """
    for count, most, what in ((nodes, MOST_NODES, "nodes"), (links, MOST_LINKS, "links")):
        if count > most:
            raise FileError(file, f"a cluster in a file has at most {most:,} {what}: got {count:,}")


def _add(graph: "nx.DiGraph", tail: str, heads: dict[str, Any], classes: dict[str, Any], ways: int) -> None:
    """Add the links, or the cables both ways, of one node."""
    edges = []
    for head, said in heads.items():
        data = classes.get(said) if isinstance(said, str) else said
        if head not in graph or tail not in graph:
            missing = shown(tail if tail not in graph else head)
            raise ValueError(f"link {shown(tail)} -> {shown(head)}: {missing} is no node")
        if not isinstance(data, dict):
            raise ValueError(f"link {shown(tail)} -> {shown(head)}: {shown(said)} is no class of links")
        if graph.has_edge(tail, head) or (ways == 2 and graph.has_edge(head, tail)):
            raise ValueError(f"link {shown(tail)} -> {shown(head)} is there twice")
        edges.append((tail, head, data))
        if ways == 2:
            edges.append((head, tail, data))
    graph.add_edges_from(edges)


def _mapping(whole: dict[str, Any], part: str, file: str, lines: Lines) -> dict[str, Any]:
    """Return a part of the document."""
    found = whole.get(part, {})
    if not isinstance(found, dict):
        raise FileError(file, f"{part} is {shown(found)}: expected a mapping", lines.of(part))
    return found
