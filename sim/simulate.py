"""Simulate a schedule on a cluster: lower it, run the engine, and report what every result carries."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import networkx as nx
import numpy as np

from algorithms.ir.order import peak_bytes
from algorithms.ir.schedule import Schedule
from algorithms.ir.timeline import Timeline, lines
from algorithms.ways import COLLECTIVES, find
from algorithms.ways.transfers import way_of
from sim.binding import BINDS
from sim.cluster_costs import with_costs_of
from sim.conditions import Conditions
from sim.costs import Costs
from sim.critical import critical_path
from sim.engine import KEPT, keeps_times
from sim.estimate import Notice, check_crowd, crowding, warning
from sim.fastest import Ahead, run_fastest
from sim.faults import REROUTE_DELAY, Fault
from sim.hosted import Hosted
from sim.jitter import Jitter, jittered
from sim.lower import lower
from sim.lowered import Lowered
from sim.measured_machine import machine_of
from sim.moved import check_moved
from sim.network import Network
from sim.outages import Outages
from sim.pacing import PLAIN, Pacing
from sim.program import Frozen, freeze
from sim.routing import Routing
from sim.rows import total
from sim.spans import Record, Spans
from sim.state import Floats, Longs
from sim.summary import groups
from sim.traffic import class_bytes, sent_bytes
from sim.twins import merged

FULL_RECORD = 8_000_000  # (op, rank) pairs kept in full: two arrays of 64 MB
HOT_LINKS = 3
Progress = Callable[[float, float], None]


class Site:
    """A cluster made ready for many simulations: its compiled network, its GPUs, the cost assumptions."""

    def __init__(
        self,
        graph: nx.DiGraph,
        costs: Costs | None = None,
        placement: Sequence[int] | None = None,
        routing: Routing | None = None,
    ) -> None:
        """Make a graph ready; its routing is its fabric's unless given."""
        self.routing = routing or Routing.of(graph)
        self.graph = merged(graph) if self.routing.name == "ideal" else graph
        self.costs, self.placement = costs or with_costs_of(Costs(), graph), placement
        real = any(gpu for _, gpu in graph.nodes(data="gpu"))  # an idealised graph's links are taken at their word
        self.network = Network(self.graph, placement, self.costs.link_share if real else None, self.routing)
        self.machine = machine_of(self.graph, self.network.gpus, self.costs)
        self.name = self.network.name
        self._repeats: dict[Routing, Site] = {}  # shared by all of them

    def repeat(self, number: int) -> Site:
        """Return the site of a further run: the same, unless its routing has a seed. It keeps the routes it finds."""
        routing = self.routing.repeat(number)
        if routing == self.routing:
            return self
        if routing not in self._repeats:
            other = self._repeats[routing] = copy.copy(self)
            other.routing, other.network = routing, self.network.routed(routing)
        return self._repeats[routing]


def simulate(
    schedule: Schedule,
    cluster: nx.DiGraph | Site,
    *,
    placement: Sequence[int] | None = None,
    ways: Mapping[str, str] | None = None,
    costs: Costs | None = None,
    routing: Routing | None = None,
    faults: Sequence[Fault] = (),
    reroute_delay: float = REROUTE_DELAY,
    jitter: Jitter | None = None,
    pacing: Pacing = PLAIN,
    path: bool = False,
    record: str = "auto",
    progress: Progress | None = None,
    notice: Notice | None = None,
    most: float = np.inf,
) -> Timeline:
    """Time a schedule on a cluster.

    Args:
        cluster: a topology graph, or a Site for many runs on one.
        placement: placement[r] is the GPU that runs rank r; the r-th if not given.
        ways: way by collective; what is missing goes the program's way, or the default.
        routing: which of its equal paths a flow takes; the cluster's own if not given.
        faults: what is slow, down, busy or late.
        reroute_delay: seconds after which flows take another way around a link that went down.
        jitter: how compute times vary.
        pacing: how the rounds of collectives follow each other.
        path: whether to find the critical path, for `about`, or else to say there why there is none.
        record: "full" keeps every rank's times, "extent" the earliest start and latest end; "auto" by size.
        notice: is told, before a run that will take long or much memory, what it will take.
        most: seconds that a run may take whose flows crowd the links.
    Returns:
        The timeline, with bytes by link class, peak memory and the effective mesh, ways and assumptions in `about`.
    Raises:
        ValueError: a mesh larger than the cluster, an unknown way, a fault on what is not there.
        NothingMovedError: a communication op without a byte.
        NoPathError: a fault leaves a flow without a path.
        StallError: nothing can ever end.
        CrowdedError: it would take longer than `most`.
    """
    chosen = dict(ways or {})
    for collective, way in chosen.items():
        find(collective, way)
    site = cluster if isinstance(cluster, Site) else None
    asked = any(wish is not None for wish in (placement, costs, routing))
    if site is None or schedule.mesh.size != site.network.ranks or asked:
        site = _fitting(cluster, schedule, placement, costs, routing)
    conditions = Conditions(faults, site.graph, site.network, reroute_delay)
    lowered = lower(schedule, site.machine, chosen, conditions.late, pacing, Hosted.on(site.network))
    check_moved(lowered)
    frozen = replace(freeze(lowered.program, site.network), label=lowered.label)
    if jitter is not None:
        frozen = jittered(frozen, lowered, jitter)
    keep = len(lowered.program.kinds) * schedule.mesh.size <= FULL_RECORD
    full = record == "full" or (record == "auto" and keep)
    how: Record = "full" if full else "path" if path else "extent"

    def ahead(frozen: Frozen) -> None:
        streams = len({op.stream for op in schedule.ops if op.stream is not None})
        check_crowd(frozen, streams, most)
        keeps = full or (path and keeps_times(frozen))
        if notice is not None and (text := warning(frozen, keeps, crowding(streams))):
            notice(text)

    frozen, spans = _run(frozen, conditions, how, progress, ahead)
    if faults or jitter is not None:
        lowered.busy = _busy(lowered, frozen, spans)
    timeline = _timeline(lowered, frozen, spans, site, chosen, not full)
    about = {**timeline.about, "pacing": pacing.describe(), **_what_if(conditions, jitter)}
    if path and not spans.has_times:
        about["no_critical_path"] = f"run event by event, it keeps the times of no more than {KEPT:,} (op, rank)"
    elif path:
        about["critical_path"] = critical_path(
            frozen, spans, lowered.bound_and_name, conditions.mean_capacity if conditions.faults else None
        ).record()
    return replace(timeline, about=about)


def _run(
    frozen: Frozen, conditions: Conditions, how: Record, progress: Progress | None, ahead: Ahead
) -> tuple[Frozen, Spans]:
    """Run a program under its conditions; return the program as it was at the start, too."""
    if not conditions.faults:
        return frozen, run_fastest(frozen, how, progress, ahead)
    outages = Outages(frozen, conditions)
    return outages.frozen, outages.run(how, progress, ahead)


def _busy(lowered: Lowered, frozen: Frozen, spans: Spans) -> Floats:
    """Seconds that each rank's compute stream works: as it ran, or as planned where only extents are kept."""
    computes = zip(lowered.schedule.ops, lowered.first, strict=True)
    ops = np.array([first for op, first in computes if op.stream is None and first >= 0], np.int64)
    if spans.start.ndim == 2:
        seconds = spans.seconds(ops, ops)
        return seconds if spans.rank_class is None else seconds[spans.rank_class]
    busy = np.zeros(frozen.ranks)
    for row in frozen.bare.row[ops].tolist():
        busy = frozen.rows[row].added_to(busy)
    return busy


def _what_if(conditions: Conditions, jitter: Jitter | None) -> dict[str, Any]:
    """What was not as planned, as results echo it."""
    about: dict[str, Any] = {}
    if conditions.faults:
        about["faults"] = [str(fault) for fault in conditions.faults]
    if any(fault.what == "down" for fault in conditions.faults):
        about["reroute_delay_s"] = conditions.reroute_delay
    if jitter is not None:
        about["jitter"] = {**jitter.describe(), "repeat": jitter.repeat}
    return about


def _fitting(
    cluster: nx.DiGraph | Site,
    schedule: Schedule,
    placement: Sequence[int] | None,
    costs: Costs | None,
    routing: Routing | None,
) -> Site:
    """A site with just the ranks of the schedule, on the first GPUs unless placed otherwise."""
    graph = cluster.graph if isinstance(cluster, Site) else cluster
    if isinstance(cluster, Site):
        costs, placement = costs or cluster.costs, placement if placement is not None else cluster.placement
        routing = routing or cluster.routing
    mesh, name, have = schedule.mesh, graph.graph.get("name", "without a name"), "GPUs placed"
    if placement is None:
        placement, have = range(sum(rank is not None for _, rank in graph.nodes(data="rank"))), "GPUs"
    if mesh.size > len(placement):
        raise ValueError(f"mesh {mesh} needs {mesh.size} ranks: cluster {name} has {len(placement)} {have}")
    return Site(graph, costs, placement[: mesh.size], routing)


def _timeline(
    lowered: Lowered, frozen: Frozen, spans: Spans, site: Site, ways: Mapping[str, str], extent: bool
) -> Timeline:
    schedule, named = lowered.schedule, lines(lowered.schedule)
    first, last = np.array(lowered.first), np.array(lowered.last)
    spent = _spent(named, first, last, spans) if extent and spans.start.ndim == 2 else {}
    spans = spans.extents() if extent else spans.unfolded()
    columns = 1 if extent else schedule.mesh.size
    start, end = np.zeros((len(first), columns)), np.zeros((len(first), columns))
    ran = last >= 0  # a load is there before the clock starts
    start[ran] = spans.start[first[ran]].reshape(-1, columns)
    end[ran] = spans.end[last[ran]].reshape(-1, columns)
    for view, shown in lowered.shown.items():
        start[view] = end[view] = spans.end[list(shown)].max(0, initial=0.0)
    return Timeline(
        clock="simulated",
        ops=named,
        start=start,
        end=end,
        spent=spent,
        sent=sent_bytes(lowered.sent, schedule.mesh.size, extent),
        busy=np.array(np.broadcast_to(lowered.busy, schedule.mesh.size)),
        busy_by=dict(zip(BINDS, (lowered.binds / schedule.mesh.size).tolist(), strict=True)),
        sent_in_all=np.array(np.broadcast_to(total(chain(*lowered.sent)), schedule.mesh.size), np.int64),
        flop=tuple(lowered.flop),
        peak=peak_bytes(schedule),
        makespan=spans.makespan,
        extent=extent,
        link_bytes=class_bytes(frozen),
        hot_links=hot_links(site.network, spans),
        about={
            "algorithm": schedule.name,
            "cluster": site.name,
            "mesh": dict(schedule.mesh.axes),
            "ranks": schedule.mesh.size,
            "gpus": list(site.network.gpus),
            "layout": schedule.problem.layout,
            "ways": ways_of(schedule, ways, lowered.native),
            "problem": schedule.problem.describe(),
            "routing": routing_record(site.network),
            "engine": spans.how,
            "assumptions": site.machine.assumptions(schedule.problem),
        },
    )


def ways_of(schedule: Schedule, ways: Mapping[str, str], native: Collection[int] = ()) -> dict[str, str]:
    """The way, or ways, that each collective of a schedule is carried out in; those in native by the library."""
    used: dict[str, set[str]] = {}
    for op in schedule.ops:
        if op.kind in COLLECTIVES and not (native and schedule.mesh.count(op.over) == 1):
            used.setdefault(op.kind, set()).add("native" if op.id in native else way_of(op, ways))
    return {kind: " and ".join(sorted(used[kind])) for kind in sorted(used)}


def _spent(named: Sequence[Mapping[str, Any]], first: Longs, last: Longs, spans: Spans) -> dict[str, float]:
    """Seconds of the ops of each stream and kind, on the rank where they are most."""
    found = {}
    for (stream, kind), places in groups(named).items():
        found[f"{stream} {kind}"] = float(spans.seconds(first[places], last[places]).max())
    return found


def routing_record(network: Network) -> dict[str, Any]:
    """How paths are chosen, and among how many, of the pairs of ranks that have sent something."""
    pairs, most = network.choices
    seed = {"seed": network.routing.seed} if network.routing.varies else {}
    return {"name": network.routing.name, **seed, "pairs_with_equal_paths": pairs, "most_equal_paths": most}


def hot_links(network: Network, spans: Spans) -> tuple[dict[str, Any], ...]:
    """The links that used most of their capacity over the whole run."""
    if spans.makespan <= 0:
        return ()
    share = spans.link_bytes / (network.capacity[:-1] * spans.makespan)
    hottest = np.argsort(-share, kind="stable")[:HOT_LINKS]
    return tuple(
        {
            "link": " -> ".join(map(str, network.links[k])),
            "kind": network.kinds[k],
            "utilisation": float(share[k]),
        }
        for k in hottest
        if share[k] > 0
    )
