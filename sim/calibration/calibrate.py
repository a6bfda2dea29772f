"""Numbers of the cost model from runs on one cluster, each with what it was told from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from statistics import median

import networkx as nx

from sim.assume import with_number
from sim.calibration.fit import Fit, fit
from sim.calibration.latency import Small, small, with_latency
from sim.calibration.part import placement
from sim.calibration.runs import Run
from sim.calibration.shares import Reached, reached
from sim.costs import Costs
from sim.islands import islands
from sim.network import Network
from topologies.units import us

DISAGREE = 0.15  # relative: from the least of several values to the greatest
LITTLE = 0.5  # of the default: less is another path, or a fault
REDUCING = ("all_reduce", "reduce_scatter")
NIC_LATENCY = "nic.latency"


@dataclass(frozen=True)
class Number:
    """A number that was told: in SI units, what it was before, and from where.

    Attributes:
        name: as `--assume` takes it, or NIC_LATENCY, which belongs to the graph.
    """

    name: str
    value: float
    before: float
    source: str


@dataclass
class Told:
    """A run and what it says.

    Attributes:
        placement: its GPUs, None for all.
    """

    run: Run
    placement: list[int] | None
    curve: Fit | None
    reached: Reached | None = None
    small: Small | None = None


@dataclass
class Calibration:
    """What runs say of a cluster.

    Attributes:
        before: the cluster as it came. graph: with what was told: `costs`, and latencies.
        costs: that it is simulated with.
        remarks: what is odd, one line each.
    """

    before: nx.DiGraph
    graph: nx.DiGraph
    costs: Costs
    numbers: list[Number] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def calibrate(runs: Sequence[Run], graph: nx.DiGraph, costs: Costs) -> Calibration:
    """Tell shares of links, launches and latencies from runs; those on one machine first, as others build on them.

    Of several runs that say the same number, the middle one counts.

    Raises:
        ValueError: the cluster is idealised, or has fewer GPUs than a run.
    """
    if not any(gpu for _, gpu in graph.nodes(data="gpu")):
        raise ValueError(f"{graph.graph.get('name')} is idealised: its links are taken at their word, nothing is told")
    found = Calibration(graph, graph, costs)
    for run in runs:
        found.told.append(Told(run, placement(graph, run), fit({size: run.points[size] for size in run.counting})))
    apart = [_islands(graph, one) > 1 for one in found.told]
    for is_apart in (False, True):
        some = [one for one, other in zip(found.told, apart, strict=True) if other == is_apart]
        for one in some:
            if one.run.on_host and not is_apart:
                found.remarks.append(f"{one.run.name}: between buffers of hosts; it tells nothing of GPUs")
            else:
                one.reached = reached(one.run, found.before, found.costs, one.placement)
        _shares(some, found)
        for one in (one for one in some if is_apart or not one.run.on_host):
            one.small = small(one.run, found.before, found.costs, one.placement)
        _latencies(some, found)
    if used := [one for one in found.told if one.run.test in REDUCING and one.reached and not one.reached.why_not]:
        source = f"{used[0].run.test} in {PurePath(used[0].run.file).name} was measured with its reductions"
        _note(found, Number("reduce_nbytes", 0.0, costs.reduce_nbytes, source))
    told = {one.name: {"value": one.value, "source": one.source} for one in found.numbers if one.name != NIC_LATENCY}
    found.graph = found.graph.copy()
    found.graph.graph["costs"] = {**graph.graph.get("costs", {}), **told}
    return found


def _islands(graph: nx.DiGraph, one: Told) -> int:
    """Return how many islands a run is on."""
    return len(islands(Network(graph, one.placement), graph))


def _shares(some: Sequence[Told], found: Calibration) -> None:
    """Tell the shares of links."""
    values: dict[str, list[tuple[float, Told]]] = defaultdict(list)
    for one in some:
        if one.reached and one.reached.why_not:
            found.remarks.append(f"{one.run.name}: {one.reached.why_not}; it tells no share of a link")
        elif one.reached and one.run.is_rising:
            found.remarks.append(f"{one.run.name}: the rate still rises at the largest size; links reach that at least")
        if one.reached and one.reached.by == "trees" and not one.reached.why_not:
            found.remarks.append(f"{one.run.name}: more than rings carry, so by trees, which the simulator has not")
        for kind, share in (one.reached.shares if one.reached else {}).items():
            values[kind].append((share, one))
    for kind, entries in values.items():
        value, source = _middle(kind, entries, found)
        before = found.costs.value(kind)
        if value < LITTLE * before:
            found.remarks.append(
                f"{kind} at {value:.0%} of its bandwidth: the messages may have gone another way (peer-to-peer or RDMA "
                "off, other NICs), or something is wrong"
            )
        _note(found, Number(kind, value, before, source))


def _latencies(some: Sequence[Told], found: Calibration) -> None:
    """Tell launches and latencies."""
    values: dict[str, list[tuple[float, Told]]] = defaultdict(list)
    for one in some:
        if one.small and one.small.why_not:
            found.remarks.append(f"{one.run.name}: small messages take {one.small.why_not}; they tell nothing")
        if one.small and one.small.comm_launch is not None:
            values["comm_launch"].append((one.small.comm_launch, one))
        if one.small and one.small.nic_latency is not None:
            values[NIC_LATENCY].append((one.small.nic_latency, one))
    for name, entries in values.items():
        value, source = _middle(name, entries, found)
        if name == NIC_LATENCY:
            before = max(d["latency"] for _, _, d in found.graph.edges(data=True) if d.get("kind") == "nic")
            found.graph = with_latency(found.graph, value, source)
            found.numbers.append(Number(name, value, before, source))
        else:
            _note(found, Number(name, value, found.costs.value(name), source))


def _middle(name: str, entries: Sequence[tuple[float, Told]], found: Calibration) -> tuple[float, str]:
    """Return the middle one of several values, and where it is from."""
    values = [value for value, _ in entries]
    value = float(f"{median(values):.4g}")
    _, one = min(entries, key=lambda entry: abs(entry[0] - value))
    small = name in ("comm_launch", NIC_LATENCY)
    by = "" if small or one.reached is None else f", by {one.reached.by}"
    source = f"measured: {one.run.name}{by}, {one.run.where(one.run.small if small else one.run.large[-1:])}"
    if len(values) > 1:
        source += f"; the middle of {len(values)}, {_shown(name, min(values))} to {_shown(name, max(values))}"
        if max(values) > min(values) * (1 + DISAGREE):
            found.remarks.append(f"{name}: runs disagree, {_shown(name, min(values))} to {_shown(name, max(values))}")
    return value, source


def _shown(name: str, value: float) -> str:
    """Write a value as people read it."""
    return f"{value / us:.3g} us" if name in ("comm_launch", NIC_LATENCY) else f"{100 * value:.3g}%"


def _note(found: Calibration, number: Number) -> None:
    """Keep a number and go on with it, to so many digits as are shown."""
    found.numbers.append(number)
    found.costs = with_number(found.costs, number.name, number.value)
