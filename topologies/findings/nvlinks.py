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
    """Return a finding for each model and number of links up.

    Not looked at are GPUs of unknown model or of one that was guessed, by its links among others, and those without any
    link: cards are sold without the bridge too.
    """
    guessed = {text.partition(";")[0] for text in graph.graph.get("assumptions", ()) if text.endswith("; say --gpu")}
    short: dict[tuple[str, float], list[str]] = defaultdict(list)
    for node, name in graph.nodes(data="gpu"):
        gpu = GPUS.get(str(name))
        if gpu is None or f"gpu: {gpu.name}" in guessed:
            continue
        if _has_links(gpu) and 0 < total(graph, node) < FULL * gpu.link_total:
            short[gpu.name, total(graph, node)].append(node)
    missing = {gpu: GPUS[name].link_total - there for (name, there), some in short.items() for gpu in some}
    return [_finding(graph, GPUS[name], there, some, missing) for (name, there), some in short.items()]


def _has_links(gpu: Gpu) -> bool:
    """Whether all links of a model go to its like; some of an MI250X go to its CPU and NIC."""
    return gpu.link_kind in KINDS and "GCD" not in gpu.name


def total(graph: "nx.DiGraph", gpu: str) -> float:
    """Return the bytes/s that a GPU sends over such links, all together."""
    return float(sum(link["bandwidth"] for _, link in _links(graph, gpu)))


def _links(graph: "nx.DiGraph", gpu: str) -> "list[tuple[str, dict[str, float]]]":
    """Return where a GPU's links lead, and these; a link to the CPU of its module is of another sort."""
    ends = ((head, link) for _, head, link in graph.out_edges(gpu, data=True) if link["kind"] in KINDS)
    return [(head, link) for head, link in ends if graph.nodes[head]["kind"] != "cpu"]


def _finding(graph: "nx.DiGraph", gpu: Gpu, there: float, some: list[str], missing: dict[str, float]) -> Finding:
    """Return the finding of GPUs that have `there` bytes/s of links."""
    up = there / gpu.link_bandwidth
    return Finding(
        "NVLinks missing",
        tuple(some),
        f"{round(up, 1):g} of the {gpu.links} links of {gpu.name}",
        partial(_mended, graph, some, missing),
    )


def _mended(graph: "nx.DiGraph", some: list[str], missing: dict[str, float]) -> "nx.DiGraph":
    """Return a copy in which what some GPUs are missing is on their links to switches, or between two that miss it."""
    copy, left = graph.copy(), dict(missing)
    for gpu in some:
        links = _links(graph, gpu)
        switches = [(head, link["bandwidth"]) for head, link in links if graph.nodes[head]["kind"] != "gpu"]
        for head, bandwidth in switches:
            wider = bandwidth * (1 + missing[gpu] / sum(rate for _, rate in switches))
            copy.edges[gpu, head]["bandwidth"] = copy.edges[head, gpu]["bandwidth"] = wider
            left[gpu] = 0.0
        host = graph.nodes[gpu].get("host")
        others = [other for other in left if other != gpu and left[other] and graph.nodes[other].get("host") == host]
        for other in sorted(others, key=lambda other: not graph.has_edge(gpu, other)):  # first where some are up
            more = min(left[gpu], left[other])
            if not more or not links:
                continue
            for a, b in ((gpu, other), (other, gpu)):
                there = copy.edges[a, b] if copy.has_edge(a, b) else {**links[0][1], "bandwidth": 0.0}
                copy.add_edge(a, b, **{**there, "bandwidth": there["bandwidth"] + more})
                left[a] -= more
    return copy
