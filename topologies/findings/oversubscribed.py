"""Switches that can pass on less than they are sent: fewer bytes/s up than down, or to their like (see beside)."""

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from topologies.bisection import bisection
from topologies.findings import Finding, back, beside, widened
from topologies.units import format_rate

if TYPE_CHECKING:
    import networkx as nx

EVEN = 1.01  # bytes/s from below over those to above: what blocks nobody


def find(graph: "nx.DiGraph") -> list[Finding]:
    """Return a finding for each tier and ratio: tier 1 are the switches with NICs, tier 2 those above, and so on."""
    ratios: dict[tuple[int, str], list[str]] = defaultdict(list)
    for switch, (tier, below, above) in _sums(graph, tiers(graph)).items():
        if above and below > EVEN * above:
            ratios[tier, f"{below / above:.3g}"].append(switch)
    level = tiers(graph)
    narrow: dict[tuple[str, str], list[str]] = defaultdict(list)  # (what, ratio) -> where
    for what, parts in beside.narrow(graph, level, EVEN):
        for part, (_, ratio) in parts.items():
            narrow[what, f"{ratio:.3g}"].append(part)
    halves = _halves(graph) if ratios or narrow else ""
    return [
        Finding(
            "fabric is oversubscribed",
            tuple(parts),
            f"{ratio}:1, bytes/s of the NICs of a {what} over those of its cables to others; {halves}mended: 1:1",
            partial(mended, graph),
            by_design=True,
        )
        for (what, ratio), parts in narrow.items()
    ] + [
        Finding(
            "fabric is oversubscribed",
            tuple(switches),
            f"{ratio}:1, bytes/s from below over those to above; {halves}mended: 1:1 in every tier",
            partial(mended, graph),
            by_design=True,
        )
        for (_, ratio), switches in ratios.items()
    ]


def _halves(graph: "nx.DiGraph") -> str:
    """Say what half of the GPUs can send the other half, and what it could if nothing were oversubscribed."""
    now, full = bisection(graph), bisection(mended(graph))
    if now is None or full is None:
        return ""
    bound = "" if now.is_exact and full.is_exact else "at most "
    return f"bisection {bound}{format_rate(now.bandwidth)} of {format_rate(full.bandwidth)}; "


def tiers(graph: "nx.DiGraph") -> dict[str, int]:
    """Return how many cables each switch is away from the nearest NIC; switches without one below are left out."""
    found: dict[str, int] = {}
    edge = [node for node, kind in graph.nodes(data="kind") if kind == "nic"]
    tier = 0
    while edge:
        tier += 1
        heads = [head for node in edge for head in graph.successors(node) if graph.nodes[head]["kind"] == "switch"]
        if any("group" in graph.nodes[head] for head in heads):  # those of a group are alike, with NICs or without
            heads += [node for node, group in graph.nodes(data="group") if group is not None]
        edge = [head for head in dict.fromkeys(heads) if head not in found]
        found |= dict.fromkeys(edge, tier)
    return found


def mended(graph: "nx.DiGraph") -> "nx.DiGraph":
    """Return a copy in which each switch has as many bytes/s up as down, tier by tier."""
    level = tiers(graph)
    for tier in range(1, max(level.values(), default=0)):
        links = []
        for switch, (at, below, above) in _sums(graph, level).items():
            if at == tier and above and below > EVEN * above:
                for head in graph.successors(switch):
                    if level.get(head) == tier + 1:
                        wider = graph.edges[switch, head]["bandwidth"] * below / above
                        links += [(switch, head, wider), (*back(switch, head), wider)]
        graph = widened(graph, links)
    for _, parts in beside.narrow(graph, level, EVEN):
        wide: dict[tuple[str, str], float] = {}
        for cables, ratio in parts.values():
            for tail, head in cables:
                for ends in ((tail, head), back(tail, head)):
                    wide[ends] = max(wide.get(ends, 0.0), ratio * graph.edges[ends]["bandwidth"])
        graph = widened(graph, [(*ends, rate) for ends, rate in wide.items()])
    return graph


def _sums(graph: "nx.DiGraph", level: dict[str, int]) -> dict[str, tuple[int, float, float]]:
    """Return of each switch its tier, and the bytes/s into it from below and out of it to the tier above."""
    sums = {}
    for switch, tier in level.items():
        below = sum(
            link["bandwidth"]
            for tail, _, link in graph.in_edges(switch, data=True)
            if (graph.nodes[tail]["kind"] == "nic" if tier == 1 else level.get(tail) == tier - 1)
        )
        above = sum(
            link["bandwidth"] for _, head, link in graph.out_edges(switch, data=True) if level.get(head) == tier + 1
        )
        sums[switch] = (tier, float(below), float(above))
    return sums
