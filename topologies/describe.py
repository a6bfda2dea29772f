"""A topology in rows: what it is made of, how fast, and who says so."""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from topologies.units import GB, format_flop_rate, format_rate, format_seconds

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Row:
    """One line about a topology.

    section is nodes, links, sources or assumptions; count is of nodes, or of links in one direction;
    bandwidth (bytes/s) and latency (s) are those of one link in one direction.
    """

    section: str
    name: str
    text: str
    count: int | None = None
    bandwidth: float | None = None
    latency: float | None = None


def describe(graph: "nx.DiGraph") -> list[Row]:
    """Return the rows: nodes by kind, links by class, sources, assumptions."""
    return [*_nodes(graph), *_links(graph), *_sources(graph), *_assumptions(graph)]


def _nodes(graph: "nx.DiGraph") -> list[Row]:
    """Count the nodes of each kind; GPUs that differ apart."""
    gpus = [data for _, data in graph.nodes(data=True) if data["kind"] == "gpu"]
    others = Counter(kind for _, kind in graph.nodes(data="kind") if kind != "gpu")
    rows = [Row("nodes", "gpu", text, count) for text, count in Counter(map(_gpu_text, gpus)).items()]
    return rows + [Row("nodes", kind, "", count) for kind, count in others.items()]


def _gpu_text(gpu: dict[str, Any]) -> str:
    """Write the model and numbers of a GPU."""
    parts = [str(gpu["gpu"])] if "gpu" in gpu else []
    parts.append(format_flop_rate(gpu["flop_rate"]))
    if "memory" in gpu:
        parts.append(f"{gpu['memory'] / GB:g} GB")
    if "memory_bandwidth" in gpu:
        parts.append(format_rate(gpu["memory_bandwidth"]))
    return ", ".join(parts)


def _links(graph: "nx.DiGraph") -> list[Row]:
    """Count the links of each kind, bandwidth and latency."""
    classes = Counter((d["kind"], d["bandwidth"], d["latency"]) for _, _, d in graph.edges(data=True))
    return [
        Row("links", kind, f"{format_rate(rate)} each way, {format_seconds(latency)}", count, rate, latency)
        for (kind, rate, latency), count in classes.items()
    ]


def _sources(graph: "nx.DiGraph") -> list[Row]:
    """Return a row for each sourced fact."""
    return [Row("sources", fact, source) for fact, source in graph.graph.get("sources", {}).items()]


def _assumptions(graph: "nx.DiGraph") -> list[Row]:
    """Return a row for each assumption."""
    split = [text.partition(":") for text in graph.graph.get("assumptions", ())]
    return [Row("assumptions", fact, reason.strip()) for fact, _, reason in split]
