"""NVLink and xGMI of a machine, from counts by pair: whether they go through switches, and how fast each is.

`NV12` between all of eight GPUs is 12 links from each into switches; `NV4` between all of four are cables, four a pair.
The tables look alike: what tells them apart is a GPU's sum over its peers against the links that it has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topologies.files.assembly.guess import Models, data_rate, ports_of
from topologies.files.assembly.merge import Merged
from topologies.files.facts import Accelerator
from topologies.hardware import Gpu
from topologies.links import NVLINK_DIRECT, NVSWITCH_LINK, XGMI_DIRECT, Link, cable
from topologies.units import GB

if TYPE_CHECKING:
    import networkx as nx

SWITCH = "nvswitch"
_UNKNOWN_RATE = 25 * GB  # of a link that nobody gives a rate for


@dataclass(frozen=True)
class Reading:
    """How a table of links was read.

    Attributes:
        up: GPU -> its links into switches; None where links are cables between two GPUs.
        why: one line, as an assumption or a remark.
    """

    up: Mapping[int, int] | None
    why: str


def wire(graph: "nx.DiGraph", merged: Merged, models: Models) -> None:
    """Join the GPUs by their links, and account for the numbers.

    A link has `expected`, bytes/s, where fewer ports are up than the GPU has.

    Raises:
        ValueError: a GPU has more links to its peers than its model has, and no switches would explain it.
    """
    facts = merged.facts
    if not facts.links and not any(ports_of(gpu) for gpu in facts.gpus):
        return
    found = read(merged, models)
    rate, coded = _rate(merged, models)
    kind = facts.link_kind
    direct = XGMI_DIRECT if kind == "xgmi" else NVLINK_DIRECT
    latency = NVSWITCH_LINK if found.up is not None else direct
    graph.graph["assumptions"] += [f"{kind}: {found.why}", latency.of(f"{kind}.latency")]
    _account(graph, merged, models, rate, coded)
    if found.up is not None:
        graph.add_node(SWITCH, kind="nvswitch")
        for gpu, model in zip(facts.gpus, models.gpus, strict=True):
            have = min(found.up[gpu.index], _active(gpu, found.up[gpu.index]))
            whole = max(have, max(found.up.values()), _full(gpu, model, models))
            _join(graph, f"gpu{gpu.index}", SWITCH, Link(kind, max(have, 1) * rate, latency.latency), whole * rate)
        return
    shares = {gpu.index: _share(gpu, _sum(facts.links, gpu.index), merged, graph) for gpu in facts.gpus}
    for (a, b), count in facts.links.items():
        link = Link(kind, count * rate * min(shares[a], shares[b]), latency.latency)
        _join(graph, f"gpu{a}", f"gpu{b}", link, count * rate)


def read(merged: Merged, models: Models) -> Reading:
    """Return whether links go through switches, and how that was told.

    Raises:
        ValueError: as of wire.
    """
    facts = merged.facts
    links, who, n = facts.links, merged.who("links").partition(" (")[0], len(facts.gpus)
    if not links:
        up = {gpu.index: ports_of(gpu) or 0 for gpu in facts.gpus}
        who = merged.who("ports").partition(" (")[0]
        return Reading(up, f"through one NVSwitch; {who} does not say where links lead: topo -m would")
    sums = {gpu.index: _sum(links, gpu.index) for gpu in facts.gpus}
    most = {gpu.index: max((c for pair, c in links.items() if gpu.index in pair), default=0) for gpu in facts.gpus}
    model = models.gpus[0]
    total = {g.index: _total(g, m, models) for g, m in zip(facts.gpus, models.gpus, strict=True)}
    all_pairs = len(links) == n * (n - 1) // 2
    like_switches = all_pairs and all(count == min(most[a], most[b]) for (a, b), count in links.items())
    each, counts = max(most.values()), sorted(set(links.values()))
    shown = " or ".join(map(str, counts)) if len(counts) < 4 else f"{counts[0]} to {counts[-1]}"
    if facts.switched:
        return Reading(most, f"through NVSwitches; {who} says so")
    if facts.switched is False or facts.link_kind != "nvlink" or not models.links_known:
        return Reading(None, f"cables between pairs of GPUs, {shown} a pair; as {who} counts them")
    fits = all(sums[gpu] <= total[gpu] for gpu in sums)
    if (
        n == 2
        and each == total[facts.gpus[0].index]
        and each > 4
        and "PCIe" not in model.name
        and "NVL" not in model.name
    ):
        return Reading(
            most, f"through NVSwitches; {who} shows {each} links, all that a {model.name} has, to its one peer"
        )
    if fits:
        return Reading(
            None,
            f"cables between pairs of GPUs, {shown} a pair; {max(sums.values())} to all peers of a GPU "
            f"are within the {max(total.values())} of {model.name}",
        )
    if like_switches and all(most[gpu] <= total[gpu] for gpu in most):
        return Reading(
            most,
            f"through NVSwitches, {each} links a GPU; as cables to {n - 1} peers they would be {max(sums.values())}, "
            f"and {model.name} has {max(total.values())}",
        )
    worst = max(sums, key=lambda gpu: sums[gpu] - total[gpu])
    raise ValueError(
        f"{merged.who('links')}: GPU {worst} has {most[worst]} links to a peer and {sums[worst]} to all, "
        f"{model.name} has {total[worst]}: say --gpu"
    )


def _total(gpu: Accelerator, model: Gpu, models: Models) -> int:
    """Return how many links a GPU has: as its model does, or as many as its file lists."""
    return max(model.links, len(gpu.ports or ()) if not model.links else 0)


def _full(gpu: Accelerator, model: Gpu, models: Models) -> int:
    """Return how many links of a GPU should be up; 0 if nobody can say."""
    if gpu.ports is None:
        return 0
    return model.links if models.links_known and model.links else len(gpu.ports)


def _active(gpu: Accelerator, otherwise: int) -> int:
    """Return how many links are up."""
    ports = ports_of(gpu)
    return otherwise if ports is None else ports


def _sum(links: Mapping[tuple[int, int], int], gpu: int) -> int:
    """Return a GPU's links to all peers."""
    return sum(count for pair, count in links.items() if gpu in pair)


def _share(gpu: Accelerator, wanted: int, merged: Merged, graph: "nx.DiGraph") -> float:
    """Return which part of a GPU's cables is up, where the file of its ports and the table of pairs differ."""
    up = _active(gpu, wanted)
    if up >= wanted or not wanted:
        return 1.0
    graph.graph["assumptions"].append(
        f"{merged.facts.link_kind}: {up} of {wanted} links of GPU {gpu.index} are up by {merged.who('ports')}; "
        "nobody says which, so each of its cables carries that part"
    )
    return max(up, 1) / wanted


def _join(graph: "nx.DiGraph", a: str, b: str, link: Link, whole: float) -> None:
    """Join two nodes; what the link carries with all ports up is `expected` where that is more."""
    cable(graph, a, b, link)
    if whole > link.bandwidth * (1 + 1e-9):
        for tail, head in ((a, b), (b, a)):
            graph.edges[tail, head]["expected"] = whole


def _rate(merged: Merged, models: Models) -> tuple[float, bool]:
    """Return bytes/s of one link, and whether the coding was taken off."""
    printed = [rate for gpu in merged.facts.gpus for rate in gpu.ports or () if rate]
    if printed or merged.facts.link_bandwidth:
        return data_rate(max(printed) if printed else merged.facts.link_bandwidth or 0.0)
    return models.gpus[0].link_bandwidth or _UNKNOWN_RATE, False


def _account(graph: "nx.DiGraph", merged: Merged, models: Models, rate: float, coded: bool) -> None:
    """Say where the bandwidth of links comes from: a file, the GPU's model, or nowhere."""
    facts, kind, model = merged.facts, merged.facts.link_kind, models.gpus[0]
    listed = [gpu.index for gpu in facts.gpus if gpu.ports is not None]
    fact = f"{kind}.bandwidth"
    counted = merged.who("links" if facts.links else "ports")
    if listed or facts.link_bandwidth:
        who = merged.who("ports" if listed else "link_bandwidth")
        graph.graph["sources"][fact] = f"{who}; links counted by {counted}" if who != counted else who
        if coded:
            graph.graph["assumptions"].append(
                f"{fact}: {rate / GB:g} GB/s a link; {who.partition(' (')[0]} prints what it signals, before coding"
            )
        if listed and len(listed) < len(facts.gpus):
            graph.graph["assumptions"].append(
                f"{fact}: the same for all GPUs; {who.partition(' (')[0]} lists {len(listed)} of {len(facts.gpus)}"
            )
    elif model.link_bandwidth and model.source and not models.assumed and "link_bandwidth" not in model.recalled:
        graph.graph["sources"][fact] = f"{model.source}; links counted by {counted}"
    else:
        of = f"as of {model.name}" if model.link_bandwidth else "nobody says how fast such a link is"
        graph.graph["assumptions"].append(f"{fact}: {rate / GB:g} GB/s a link; {of}, links counted by {counted}")
