"""A cluster as GraphML: what networkx, Gephi, yEd and others read and write.

Attributes have the types of GraphML; a list, a mapping or null, which has none, is written as text that begins with
`json:`, and so is a text that XML would change.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from topologies.files.document import few, plain
from topologies.files.facts import FileError
from topologies.files.text.markup import Element, parse
from topologies.files.text.wording import Remarks, shown

if TYPE_CHECKING:
    import networkx as nx

MOST_ELEMENTS = 900_000  # some 16,384 GPUs
MOST_KEYS = 100
_JSON = "json:"
_FAITHFUL = re.compile("[\x20-\x7e\xa1-\ud7ff\ue000-\ufffd]+")  # text that XML keeps as it is
_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_TYPES = {bool: "boolean", int: "long", float: "double", str: "string"}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def written(graph: "nx.DiGraph") -> str:
    """Return a cluster as GraphML.

    Raises:
        ValueError: an attribute is not of the kinds that a document holds, or a node's name is no text of XML.
    """
    few(len(graph), graph.number_of_edges(), str(graph.graph.get("name")))
    keys: dict[tuple[str, str, str], str] = {}
    body = [
        '  <graph edgedefault="directed">',
        *_written(graph.graph, "graph", "the graph", keys, "    "),
        *(line for name, data in graph.nodes(data=True) for line in _node(name, data, keys)),
        *(line for a, b, data in graph.edges(data=True) for line in _edge(a, b, data, keys)),
        "  </graph>",
    ]
    declared = (
        f'  <key id="{key}" for="{of}" attr.name={quoteattr(name)} attr.type="{form}" />'
        for (of, name, form), key in keys.items()
    )
    head = ["<?xml version='1.0' encoding='utf-8'?>", f'<graphml xmlns="{_NAMESPACE}">', *declared]
    return "\n".join([*head, *body, "</graphml>", ""])


def _node(name: object, data: dict[str, Any], keys: dict[tuple[str, str, str], str]) -> Iterator[str]:
    """Yield the lines of a node."""
    if not isinstance(name, str) or not _is_faithful(name):
        raise ValueError(f"the name of a node in GraphML is a text that can be printed: got {shown(name)}")
    yield f"    <node id={quoteattr(name)}>"
    yield from _written(data, "node", name, keys, "      ")
    yield "    </node>"


def _edge(a: str, b: str, data: dict[str, Any], keys: dict[tuple[str, str, str], str]) -> Iterator[str]:
    """Yield the lines of a link."""
    yield f"    <edge source={quoteattr(a)} target={quoteattr(b)}>"
    yield from _written(data, "edge", f"{a} -> {b}", keys, "      ")
    yield "    </edge>"


def _written(
    data: dict[str, Any], of: str, where: str, keys: dict[tuple[str, str, str], str], indent: str
) -> Iterator[str]:
    """Yield a line an attribute, and note its key."""
    for name, value in data.items():
        if not isinstance(name, str) or not _is_faithful(name):
            raise ValueError(f"the name of an attribute in GraphML is a text that can be printed: got {shown(name)}")
        said = plain(value, name, where)
        text = said if isinstance(said, str) else str(said)
        if type(said) not in _TYPES or (isinstance(said, str) and not _is_faithful(said)):
            text, said = _JSON + json.dumps(said, allow_nan=False), ""
        key = keys.setdefault((of, name, _TYPES[type(said)]), f"d{len(keys)}")
        yield f'{indent}<data key="{key}">{escape(text)}</data>'


def _is_faithful(text: str) -> bool:
    """Tell whether a text comes back from XML as it is."""
    return text.isprintable() and bool(_FAITHFUL.fullmatch(text)) and not text.startswith(_JSON)


def read(text: str, file: str, remarks: Remarks) -> "nx.DiGraph":
    """Return the cluster of a GraphML text.

    Raises:
        FileError: it is no whole GraphML, or not of one plain graph.
    """
    root = parse(text, file, ["graphml"], MOST_ELEMENTS)
    keys = {element.attributes.get("id", ""): _Key(element) for element in root.all("key")}
    if len(keys) > MOST_KEYS:
        raise FileError(file, f"declares more than {MOST_KEYS} keys", root.line)
    graphs = root.all("graph")
    if len(graphs) != 1:
        raise FileError(file, f"has {len(graphs)} graphs: expected one", root.line)
    return _Reader(file, keys, remarks).graph(graphs[0])


class _Key:
    """What an attribute is called, and how its text is read."""

    def __init__(self, element: Element) -> None:
        self.name = element.attributes.get("attr.name", element.attributes.get("id", ""))
        self.form = element.attributes.get("attr.type", "string")
        defaults = element.all("default")
        self.default = defaults[0].text if defaults else None
        self.of = element.attributes.get("for", "all")

    def value(self, text: str) -> Any:
        """Return a text as a value; ValueError where it is none."""
        return _READ.get(self.form, _text)(text)


class _Reader:
    """Builds the graph of a document."""

    def __init__(self, file: str, keys: dict[str, _Key], remarks: Remarks) -> None:
        self.file, self.keys, self.remarks = file, keys, remarks
        self.defaults = {
            of: [key for key in keys.values() if key.default is not None and key.of in (of, "all")]
            for of in ("graph", "node", "edge")
        }

    def graph(self, element: Element) -> "nx.DiGraph":
        """Return the graph of its element."""
        import networkx as nx

        few(len(element.all("node")), len(element.all("edge")), self.file)
        graph = nx.DiGraph()
        graph.graph.update(self.data(element))
        for node in element.all("node"):
            name = node.attributes.get("id")
            if name is None or name in graph:
                raise FileError(self.file, f"node {shown(name)} has no id, or one that is there twice", node.line)
            graph.add_nodes_from([(name, self.data(node))])
        ways = 1 if element.attributes.get("edgedefault") == "directed" else 2
        if ways == 2:
            self.remarks.add("edges are not directed: each is read as a cable, a link both ways")
        for edge in element.all("edge"):
            ends = edge.attributes.get("source"), edge.attributes.get("target")
            for end in ends:
                if end not in graph:
                    raise FileError(self.file, f"an edge ends at {shown(end)}, which is no node", edge.line)
            for tail, head in (ends, ends[::-1])[:ways]:
                if graph.has_edge(tail, head):
                    raise FileError(self.file, f"edge {shown(tail)} -> {shown(head)} is there twice", edge.line)
                graph.add_edges_from([(tail, head, self.data(edge))])
        for child in element.children:
            if child.tag not in ("node", "edge", "data", "desc"):
                raise FileError(self.file, f"<{shown(child.tag)[1:-1]}> of GraphML is not read", child.line)
        return graph

    def data(self, element: Element) -> dict[str, Any]:
        """Return the attributes of an element."""
        found = {key.name: self.value(key, key.default or "", element.line) for key in self.defaults[element.tag]}
        for data in element.children:
            if data.tag != "data":
                continue
            key = self.keys.get(data.attributes.get("key", ""))
            if key is None:
                raise FileError(self.file, f"key {shown(data.attributes.get('key'))} is not declared", data.line)
            found[key.name] = self.value(key, data.text, data.line)
        return found

    def value(self, key: _Key, text: str, line: int) -> Any:
        """Return a text as the value that its key says it is."""
        try:
            return key.value(text)
        except (ValueError, KeyError, RecursionError):
            raise FileError(self.file, f"{shown(key.name)} is {shown(text)}: expected {key.form}", line) from None


def _whole(text: str) -> int:
    """Return a whole number in plain digits."""
    if not re.fullmatch(r"\s{0,9}[-+]?[0-9]{1,40}\s{0,9}", text):
        raise ValueError
    return int(text)


def _text(text: str) -> Any:
    """Return a text, or the list, mapping, null or text that it holds as JSON."""
    return json.loads(text[len(_JSON) :]) if text.startswith(_JSON) else text


_READ: dict[str, Callable[[str], Any]] = {
    "boolean": lambda text: _BOOLEANS[text.strip().lower()],
    "int": _whole,
    "long": _whole,
    "float": float,
    "double": float,
}
