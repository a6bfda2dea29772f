"""GPUs with fewer NVLinks (or xGMI links) up than their model has."""

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from topologies.findings import Finding
from topologies.hardware import GPUS, Gpu

if TYPE_CHECKING:
    import networkx as nx

KINDS = ("nvlink", "xgmi")
FULL = 0.95  # of the model's bytes/s: files print 25.781 or 26.562 for links of 25


def find(graph: "nx.DiGraph") -> list[Finding]:
    """Return a finding for each model and number of links up; GPUs of unknown model are not looked at."""
    short: dict[tuple[str, float], list[str]] = defaultdict(list)
    for node, name in graph.nodes(data="gpu"):
        gpu = GPUS.get(str(name))
        if gpu is not None and gpu.nvlinks and total(graph, node) < FULL * gpu.nvlink_total:
            short[gpu.name, total(graph, node)].append(node)
    missing = {gpu: GPUS[name].nvlink_total - there for (name, there), some in short.items() for gpu in some}
    return [_finding(graph, GPUS[name], there, some, missing) for (name, there), some in short.items()]


def total(graph: "nx.DiGraph", gpu: str) -> float:
    """Return the bytes/s that a GPU sends over such links, all together."""
    return float(sum(link["bandwidth"] for _, _, link in graph.out_edges(gpu, data=True) if link["kind"] in KINDS))


def _finding(graph: "nx.DiGraph", gpu: Gpu, there: float, some: list[str], missing: dict[str, float]) -> Finding:
    """Return the finding of GPUs that have `there` bytes/s of links."""
    up = there / gpu.nvlink_bandwidth
    return Finding(
        "NVLinks missing",
        tuple(some),
        f"{round(up, 1):g} of the {gpu.nvlinks} links of {gpu.name}",
        partial(_mended, graph, some, missing),
    )


def _mended(graph: "nx.DiGraph", some: list[str], missing: dict[str, float]) -> "nx.DiGraph":
    """Return a copy in which what some GPUs are missing is on their links to switches, or between two that miss it."""
    copy, left = graph.copy(), dict(missing)
    for gpu in some:
        switches = [
            (head, link["bandwidth"])
            for _, head, link in graph.out_edges(gpu, data=True)
            if link["kind"] in KINDS and graph.nodes[head]["kind"] != "gpu"
        ]
        for head, bandwidth in switches:
            wider = bandwidth * (1 + missing[gpu] / sum(rate for _, rate in switches))
            copy.edges[gpu, head]["bandwidth"] = copy.edges[head, gpu]["bandwidth"] = wider
            left[gpu] = 0.0
        host = graph.nodes[gpu].get("host")
        others = [other for other in left if other != gpu and left[other] and graph.nodes[other].get("host") == host]
        for other in sorted(others, key=lambda other: not graph.has_edge(gpu, other)):  # first where some are up
            more = min(left[gpu], left[other])
            like = next((link for _, _, link in graph.out_edges(gpu, data=True) if link["kind"] in KINDS), None)
            if not more or like is None:
                continue
            for a, b in ((gpu, other), (other, gpu)):
                there = copy.edges[a, b] if copy.has_edge(a, b) else {**like, "bandwidth": 0.0}
                copy.add_edge(a, b, **{**there, "bandwidth": there["bandwidth"] + more})
                left[a] -= more
    return copy
