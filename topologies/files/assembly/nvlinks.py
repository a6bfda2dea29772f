"""NVLink and xGMI of a machine, from counts by pair: whether they go through switches, and how fast each is.

`NV12` between all of eight GPUs is 12 links from each into switches; `NV4` between all of four are cables, four a pair.
The tables look alike: what tells them apart is a GPU's sum over its peers against the links that it has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topologies.files.assembly import agree
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

    A link has `expected`, bytes/s, where fewer ports are up than the GPU has. A GPU none of whose ports is up has none.

    Raises:
        ValueError: a GPU has more links to its peers than its model has, and no switches would explain it; or more up;
            or two files count links that no one machine has.
    """
    facts = merged.facts
    if not facts.links and not any(ports_of(gpu) for gpu in facts.gpus):
        return
    agree.enough_listed(merged)
    agree.within_model(merged, models)
    found = read(merged, models)
    agree.of_one_machine(merged, found.up)
    rate, coded = _rate(merged, models)
    kind = facts.link_kind
    direct = XGMI_DIRECT if kind == "xgmi" else NVLINK_DIRECT
    latency = NVSWITCH_LINK if found.up is not None else direct
    graph.graph["assumptions"] += [f"{kind}: {found.why}", latency.of(f"{kind}.latency")]
    _account(graph, merged, models, rate, coded)
    if found.up is not None:
        graph.add_node(SWITCH, kind="nvswitch")
        _say_ports(graph, merged, found.up)
        for gpu, model in zip(facts.gpus, models.gpus, strict=True):
            have = min(found.up[gpu.index], _active(gpu, found.up[gpu.index], merged))
            whole = max(have, max(found.up.values()), _full(gpu, model, models))
            if have:
                _join(graph, f"gpu{gpu.index}", SWITCH, Link(kind, have * rate, latency.latency), whole * rate)
        if not graph.degree(SWITCH):
            graph.remove_node(SWITCH)
        return
    sums = {gpu.index: agree.total(facts.links, gpu.index) for gpu in facts.gpus}
    _say_ports(graph, merged, sums)
    shares = {g.index: min(1.0, _active(g, sums[g.index], merged) / max(sums[g.index], 1)) for g in facts.gpus}
    for (a, b), count in facts.links.items():
        share = min(shares[a], shares[b])
        if share:
            _join(graph, f"gpu{a}", f"gpu{b}", Link(kind, count * rate * share, latency.latency), count * rate)


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
    sums = {gpu.index: agree.total(links, gpu.index) for gpu in facts.gpus}
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


def _active(gpu: Accelerator, otherwise: float, merged: Merged) -> float:
    """Return how many links are up; one that is slower than the fastest of the machine counts in part."""
    if gpu.ports is None:
        return otherwise
    return sum(gpu.ports) / max((rate for one in merged.facts.gpus for rate in one.ports or () if rate), default=1.0)


def _say_ports(graph: "nx.DiGraph", merged: Merged, counted: Mapping[int, int]) -> None:
    """Say where the ports of GPUs differ from the links counted of them, and what was made of it."""
    facts, who = merged.facts, merged.who("ports").partition(" (")[0]
    said: dict[str, list[str]] = {}
    for gpu in facts.gpus:
        of, up = counted[gpu.index], _active(gpu, counted[gpu.index], merged)
        if up > of:
            text = (
                f"{who} has {up:g} links up, {merged.who('links').partition(' (')[0]} counts {of}: the lesser is taken"
            )
        elif up < of and not up:
            text = f"none of {of} links is up by {who}: left out"
        elif up < of:
            slow = any(0 < rate < max(gpu.ports or ()) for rate in gpu.ports or ())
            text = f"{up:g} of {of} links are up by {who}" + (", a slow one counted in part" if slow else "")
            text += "" if SWITCH in graph else "; nobody says which, so each of its cables carries that part"
        else:
            continue
        said.setdefault(text, []).append(str(gpu.index))
    graph.graph["assumptions"] += [f"{facts.link_kind}: GPU {', '.join(those)}: {text}" for text, those in said.items()]


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
