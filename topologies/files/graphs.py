"""Stand-in until cluster files land: node-link JSON."""

import json
from pathlib import Path

import networkx as nx


def write(graph: nx.DiGraph, path: str) -> None:
    """Write a graph."""
    Path(path).write_text(json.dumps(nx.node_link_data(graph, edges="links")))


def read_graph(path: str) -> nx.DiGraph:
    """Read a graph."""
    return nx.node_link_graph(json.loads(Path(path).read_text()), edges="links")
