"""`ringloom topology check`: what is wrong with a cluster, and what that costs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from topologies.options import Named, cluster_options
from topologies.units import GB

if TYPE_CHECKING:
    import networkx as nx

    from sim.bandwidths import Bandwidths
    from sim.repairs import Repair
    from topologies.findings import Finding

SHOWN = 3  # places of a finding, unless all are asked for
TABLE = (
    ("finding", "left"),
    ("where", "left"),
    ("how bad", "left"),
    ("all-reduce", "right"),
    ("all-to-all", "right"),
    ("send/recv", "right"),
)


@click.command("check")
@click.argument("names", nargs=-1, metavar="[NAME|FILE...]")
@cluster_options
@click.option("--all", "everywhere", is_flag=True, help="Name every place of a finding.")
@click.option("--strict", is_flag=True, help="Exit with 1 where there is a fault (what is by design is none).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there.")
def command(names: tuple[str, ...], named: Named, everywhere: bool, strict: bool, as_json: bool) -> int:
    """Check a cluster: links, NICs and switches that are slower than they should be, and what each costs.

    The figures are large-message bandwidths by closed form, now and with the one thing mended.
    """
    from dataclasses import replace

    from sim.repairs import repairs
    from topologies.laws import check

    files = names if len(names) > 1 else ()
    graph, _ = replace(named, cluster=",".join(names) or named.cluster, files=files).build()
    check(graph)
    now, found = repairs(graph)
    if as_json:
        json.dump(_answer(graph, now, found), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        _show(now, found, len(graph) if everywhere else SHOWN)
    return int(strict and any(not repair.finding.by_design for repair in found))


def _show(now: Bandwidths, found: list[Repair], most: int) -> None:
    """Print what the cluster reaches, and the findings, a table each."""
    from sim import report

    with report.printing(sys.stdout) as out:
        out.print(f"{now.graph.graph['name']}: {now.network.ranks} GPU{'s' * (now.network.ranks > 1)}")
        out.print()
        out.print(report.table((("reaches", "whole"), ("GB/s", "right"), ("", "left")), _figures(now)))
        out.print()
        if not any(not repair.finding.by_design for repair in found):
            out.print("nothing wrong found" + ", but what is by design:" * bool(found))
        if found:
            rows = [_row(repair, most) for repair in found]
            out.print(report.table(TABLE, rows))
            out.print("GB/s now -> mended; send/recv of the pair that gains most, both ways at once")
        for text in assumptions(now):
            report.bullet(out, "- ", text)


def _figures(now: Bandwidths) -> Iterator[tuple[str, str, str]]:
    """Yield the large-message bandwidths, a row each."""
    if now.rings:
        adaptive = ", with detours" * (now.graph.graph.get("routing") == "adaptive")
        rings = f"{len(now.rings)} ring{'s' * (len(now.rings) > 1)}{adaptive}; all-gather and reduce-scatter the same"
        yield "all-reduce busbw", _rate(now.all_reduce), rings
    if now.tree is not None:
        yield "", _rate(now.tree), "two trees between machines"
    if now.all_to_all is not None:
        yield "all-to-all busbw", _rate(now.all_to_all), "every two GPUs at once"
    for one in now.classes():
        a, b = one.example
        both = "" if math.isclose(one.bandwidth, one.both_ways) else f"; both ways at once {_rate(one.both_ways)} each"
        yield "send/recv", _rate(one.bandwidth), f"{one.way}: {one.pairs:,} pairs, such as {a} {b}{both}"


def _row(repair: Repair, most: int) -> tuple[str, ...]:
    """Write a finding as a row."""
    finding = repair.finding
    more = len(finding.where) - most
    where = "\n".join([*finding.where[:most], *([f"and {more} more"] if more > 0 else [])])
    if repair.pair and not repair.gains:
        now = (repair.all_reduce, repair.all_to_all, repair.send_recv)
        rates = ("-" if rate is None else _rate(rate) for rate in now)
        return _title(finding), where, f"{finding.how_bad}; mending it gains no bandwidth", *rates
    return (
        _title(finding),
        where,
        finding.how_bad,
        _change(repair.all_reduce, repair.all_reduce_mended),
        _change(repair.all_to_all, repair.all_to_all_mended),
        _change(repair.send_recv, repair.send_recv_mended),
    )


def _title(finding: Finding) -> str:
    """Write what a finding is."""
    return finding.what + (" (by design)" if finding.by_design else "")


def _change(now: float | None, mended: float | None) -> str:
    """Write a bandwidth now and mended; one that stays once."""
    if now is None or mended is None:
        return "-"
    return _rate(now) if _rate(now) == _rate(mended) else f"{_rate(now)} -> {_rate(mended)}"


def _rate(bandwidth: float) -> str:
    """Write bytes/s in GB/s, to a tenth below a hundred."""
    return f"{bandwidth / GB:.1f}" if bandwidth < 99.95 * GB else f"{bandwidth / GB:.0f}"


def _answer(graph: nx.DiGraph, now: Bandwidths, found: list[Repair]) -> dict[str, Any]:
    """The answer as JSON: bytes/s throughout."""
    from dataclasses import asdict

    from sim.commands import version

    return {
        "schema": "ringloom.topology-check/1",
        "ringloom": version(),
        "cluster": {
            "name": graph.graph["name"],
            "gpus": now.network.ranks,
            "gpu": sorted({gpu for _, gpu in graph.nodes(data="gpu") if gpu}),
            "fabric": graph.graph.get("fabric"),
            "sources": dict(graph.graph.get("sources", {})),
        },
        "problem": None,
        "assumptions": [*graph.graph.get("assumptions", ()), *assumptions(now)],
        "bandwidths": {
            "all_reduce": now.all_reduce if now.rings else None,
            "rings": len(now.rings),
            "tree": now.tree,
            "all_to_all": now.all_to_all,
            "send_recv": [asdict(one) for one in now.classes()],
        },
        "results": [_result(repair) for repair in found],
    }


def _result(repair: Repair) -> dict[str, Any]:
    """A finding as JSON."""
    finding = repair.finding
    return {
        "finding": finding.what,
        "by_design": finding.by_design,
        "where": list(finding.where),
        "how_bad": finding.how_bad,
        "gains": repair.gains,
        "all_reduce": {"now": repair.all_reduce, "mended": repair.all_reduce_mended},
        "all_to_all": {"now": repair.all_to_all, "mended": repair.all_to_all_mended},
        "send_recv": {"now": repair.send_recv, "mended": repair.send_recv_mended, "pair": list(repair.pair)},
    }


def assumptions(now: Bandwidths) -> Iterator[str]:
    """Yield what the figures rest on."""
    from sim.bandwidths import TREE_SHARE
    from sim.cluster_costs import with_costs_of
    from sim.costs import Costs

    kinds = dict.fromkeys(now.network.kinds)
    if any(gpu for _, gpu in now.graph.nodes(data="gpu")):
        costs = with_costs_of(Costs(), now.graph)
        told = {kind: " (measured)" for kind in kinds if kind in costs.measured}
        shares = ", ".join(f"{kind} {costs.value(kind):g}{told.get(kind, '')}" for kind in kinds)
        yield f"link shares: of its data-sheet bandwidth a link reaches {shares}"
    yield "large messages: latency, protocol and reduction take no time"
    if now.tree is not None:
        yield f"trees: reach {TREE_SHARE:g} of the links' rate, as the collective library's own model has it"
    yield "rings and trees: reduction inside switches (NVLS, SHARP) goes beyond them and is not modelled"
    if _follows_ranks(now):
        yield "rings: in the order of ranks; rings from neighbour to neighbour can reach several times as much"
    yield "equal paths share what they carry equally; hashed ECMP is slower where flows collide"
    if now.graph.graph.get("routing") == "adaptive":
        yield (
            "routes: adaptive, by flow: those of a collective take detours where cables are full (a switch chooses "
            "anew for each packet, which is more even); send/recv the shortest"
        )


def _follows_ranks(now: Bandwidths) -> bool:
    """Whether rings follow the ranks of an island whose GPUs are cabled to each other: one too large to search."""
    from sim.walks import SEARCHED

    kinds = dict(now.graph.nodes(data="kind"))
    large = max(map(len, now.islands), default=0) > SEARCHED
    in_order = any(ring[: len(now.islands[0])] == now.islands[0] for ring in now.rings)
    return large and in_order and any(kinds[a] == kinds[b] == "gpu" for a, b in now.graph.edges)
