"""A cluster file that holds one machine, which can be had many times, joined by any fabric."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from topologies.files.assembly.guess import nic_speed
from topologies.files.assembly.merge import short
from topologies.files.facts import ClusterFacts, FileError, MachineFacts, Port
from topologies.files.text.wording import shown
from topologies.hardware import GPUS
from topologies.laws import LARGEST, LONGEST
from topologies.links import IB_SWITCH_LINK, NIC_LINK, Estimate
from topologies.nics import Network
from topologies.units import Gbit, format_rate

if TYPE_CHECKING:
    import networkx as nx


def is_machine(graph: "nx.DiGraph") -> bool:
    """Tell whether a graph is one machine with NICs: no network joins what is in it, be it one host or a rack."""
    kinds = dict(graph.nodes(data="kind"))
    nics = {node for node, kind in kinds.items() if kind == "nic"}
    return bool(nics) and "switch" not in kinds.values() and not any(a in nics and b in nics for a, b in graph.edges)


def machine_of(graph: "nx.DiGraph", whole: ClusterFacts, nic: float | None) -> "tuple[nx.DiGraph, str]":
    """Return the machine of a graph as topologies.cluster has it, and what a copy of it is called.

    Args:
        graph: keeps the laws; of one machine, whose names may have all a part such as node0/ before them.
        nic: bytes/s of its NICs, where the file does not say them.
    Raises:
        FileError: its `network` has a value that is none.
        ValueError: nic is given and another than the file's.
    """
    import networkx as nx

    stems = {str(node).partition("/")[0] for node in graph if "/" in str(node)}
    stem = stems.pop() if len(stems) == 1 and all("/" in str(node) for node in graph) else ""
    one = nx.DiGraph(**graph.graph)
    one.graph["name"] = graph.graph["name"].removesuffix("(1)")
    hosts = {data.get("host") for _, data in graph.nodes(data=True)}
    for node, data in graph.nodes(data=True):
        data = dict(data)
        if "nic" in data:
            data["nic"] = _without(stem, data["nic"])
        if len(hosts) == 1:
            data.pop("host", None)
        elif "host" in data:
            data["host"] = _without(stem, data["host"])
        one.add_node(_without(stem, node), **data)
    one.add_edges_from((_without(stem, a), _without(stem, b), link) for a, b, link in graph.edges(data=True))
    one.graph["network"] = _network(one, whole, nic)
    return one, stem.rstrip("0123456789") or "node"


def _without(stem: str, name: object) -> str:
    """Return a name without the part that all have before it."""
    return str(name).removeprefix(f"{stem}/") if stem else str(name)


def _network(one: "nx.DiGraph", whole: ClusterFacts, asked: float | None) -> Network:
    """Return what the NICs are made of: as the file says, as asked for, or else as machines of such GPUs have."""
    said, who, facts = whole.graph.graph.get("network") or {}, short(whole.file), one.graph
    if not isinstance(said, Mapping):
        raise FileError(whole.file, f"network is {shown(said)}: expected a mapping, as {{bandwidth: 5.0e+10}}")
    nic = _estimate(said, "latency", NIC_LINK, whole)
    switch = _estimate(said, "switch_latency", IB_SWITCH_LINK, whole)
    name = _text(said, "name", f"NICs of {who}", whole)
    if said.get("bandwidth") is not None:
        rate = _number(said, "bandwidth", (1, LARGEST), whole)
        if asked is not None and asked != rate:
            raise ValueError(f"nic {format_rate(asked)}: {who} says {format_rate(rate)}; leave --nic out")
        if "assumed" in said:
            return Network(name, rate, _text(said, "assumed", "", whole), nic, switch)
        source = _text(said, "source", f"{who} ({whole.format})", whole)
        facts["cited"] = source
        return Network(name, rate, source, nic, switch)
    if asked is not None:
        return Network(name, asked, f"{asked / Gbit:.3g} Gbit/s; as asked for", nic, switch)
    names = [str(node) for node, kind in one.nodes(data="kind") if kind == "nic"]
    model = next((str(gpu) for _, gpu in one.nodes(data="gpu") if gpu in GPUS), "RTX4090-24")
    machine = MachineFacts(whole.file, whole.format, (), tuple(Port(node) for node in names))
    guess, reason = nic_speed(machine, GPUS[model])
    why = f"{guess / Gbit:.3g} Gbit/s; {reason}; {who} does not say its network, --nic would"
    return Network(name, guess, why, nic, switch)


def _estimate(said: Mapping[str, Any], key: str, usual: Estimate, whole: ClusterFacts) -> Estimate:
    """Return a latency of the network with its reason; the usual one where the file has none."""
    if said.get(key) is None:
        return usual
    reason = _text(said, f"{key}_reason", f"as {short(whole.file)} says", whole)
    return Estimate(_number(said, key, (0, LONGEST), whole), reason)


def _number(said: Mapping[str, Any], key: str, within: tuple[float, float], whole: ClusterFacts) -> float:
    """Return a number of the network."""
    value = said[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not within[0] <= value <= within[1]:
        rule = f"a number from {within[0]:g} to {within[1]:g}"
        raise FileError(whole.file, f"{key} of network is {shown(value)}: expected {rule}")
    return float(value)


def _text(said: Mapping[str, Any], key: str, usual: str, whole: ClusterFacts) -> str:
    """Return a text of the network."""
    value = said.get(key, usual)
    if not isinstance(value, str) or not value.isprintable():
        raise FileError(whole.file, f"{key} of network is {shown(value)}: expected a text")
    return value
