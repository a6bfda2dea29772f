"""Static routes on a directed graph: Dijkstra, from a source to its targets. Compiled.

The best path passes the fewest NICs, so that it stays on a machine where it can, then the fewest GPUs, then has the
least latency, then the fewest hops. A node may say that passing it is worth more GPUs than its kind is, a `toll`: at 2
a spine is dearer than the GPU that PXN takes. Among equals, looking
back from the destination, affinity comes first: the NIC of either end, the PCIe link of a GPU at either end, and of the
GPUs before a NIC the one that it goes with. So where a GPU is passed it is the sender's neighbour, on the receiver's
rail. Then the digits of the pair's draw say which, the first where it is 0. Latencies are compared in whole
picoseconds, so that equal paths are equal whatever the order of their links.

A path keeps to the machine it starts on, the fabric and the machine it ends on, which it does not leave again;
other machines forward only where there is no such path. So a rail of 2,048 NICs is searched as fast as one of two; and
as twin switches are one place of the search, so is a tree of many spines.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from sim.jit import compiled, inlined
from sim.roads import FABRIC, Lanes, Roads
from sim.state import Ints, Longs

PAIR, SOURCE, ANYWHERE = 0, 1, 2  # searches: for one target, for all targets of a source, through any machine
PAIR_PLACES = 20  # a search for one target costs about as much as this many places of one for all
HOPS = 8  # room for a path, at first
MOST_WAYS = 1 << 40  # equal paths that are counted


class Reach(NamedTuple):
    """What the latest search found: right for every place it settled, void where `seen` is not its number."""

    seen: Longs  # [places] the search that reached the place last
    settled: Longs  # [places] the search that settled it last
    wanted: Longs  # [places] the search that it was a target of last
    gate: Longs  # [places] the search of whose two machines one is entered from it
    gpus: Longs  # [places] passed through, or as many as the tolls are worth
    latency: Longs  # [places] picoseconds
    hops: Longs  # [places]
    entered: Longs  # [places] a road by which the best paths enter the place
    beside: Longs  # [roads] the next that enters the same place as well, -1: none
    fan: Longs  # [roads] the roads to try from the place at hand


@compiled
def paths(roads: Roads, lanes: Lanes, sources: Longs, targets: Longs, draws: Longs) -> tuple[Ints, Longs]:
    """Return the links from each source to its target, [pairs, hops], -1 behind the end; sources are sorted.

    A target that cannot be reached has a row of -1. Besides, return how many equal paths each pair has: the product of
    the choices along its own, which is that number wherever all of them have as many.
    """
    places = len(roads.start) - 1
    a, b, c, d, e, f, g, h = np.zeros((8, places), np.int64)
    beside, fan = np.zeros((2, len(roads.head)), np.int64)
    reach = Reach(a, b, c, d, e, f, g, h, beside, fan)
    links, ways = np.full((len(sources), HOPS), -1, np.int32), np.ones(len(sources), np.int64)
    goals, search, begin = lanes.place[targets], 0, 0
    while begin < len(sources):
        end, origin = begin + 1, lanes.place[sources[begin]]
        while end < len(sources) and sources[end] == sources[begin]:
            end += 1
        one_by_one = (end - begin) * PAIR_PLACES < places
        while begin < end:
            last = begin + 1 if one_by_one else end
            search += 1
            kind = PAIR if one_by_one else SOURCE
            if not _search(roads, reach, origin, goals[begin:last], search, kind):
                search += 1
                kind = ANYWHERE
                _search(roads, reach, origin, goals[begin:last], search, kind)
            links = _with_room(reach, goals[begin:last], search, links)
            _trace(lanes, roads.tail, reach, sources, targets, draws, begin, last, search, links, ways)
            begin = last
    return links, ways


@compiled
def _search(roads: Roads, reach: Reach, source: int, targets: Longs, search: int, kind: int) -> bool:
    """Settle the nodes around `source`, nearest first, until all targets are; return whether they are."""
    missing = 0
    for target in targets:
        missing += reach.wanted[target] != search
        reach.wanted[target] = search
    _mark_gates(roads, reach, source, targets[0], search, kind)
    _label(reach, source, search, 0, 0, 0, -1)
    heap = [(0, 0, 0, source)]
    while len(heap) > 0 and missing > 0:
        passed, travelled, far_off, node = heappop(heap)
        if reach.settled[node] == search:
            continue
        reach.settled[node] = search
        missing -= reach.wanted[node] == search
        passed += roads.toll[node] * (node != source)
        for k in range(_fan(roads, reach, source, targets[0], node, search, kind)):
            road = reach.fan[k]
            other = roads.head[road]
            new = (passed, travelled + roads.picoseconds[road], far_off + 1)
            old = (reach.gpus[other], reach.latency[other], reach.hops[other])
            if reach.seen[other] != search or (reach.settled[other] != search and new < old):
                _label(reach, other, search, new[0], new[1], new[2], road)
                heappush(heap, (new[0], new[1], new[2], other))
            elif new == old:
                reach.beside[road], reach.entered[other] = reach.entered[other], road
    return missing == 0


@inlined
def _label(reach: Reach, place: int, search: int, gpus: int, latency: int, hops: int, road: int) -> None:
    """Note the best way to `place` so far."""
    reach.seen[place], reach.entered[place] = search, road
    reach.gpus[place], reach.latency[place], reach.hops[place] = gpus, latency, hops
    if road >= 0:
        reach.beside[road] = -1


@inlined
def _mark_gates(roads: Roads, reach: Reach, source: int, target: int, search: int, kind: int) -> None:
    """Mark the places from which a path to one target may enter a machine."""
    for side in range(2):
        machine = roads.machine[source if side else target]
        if kind == PAIR and machine != FABRIC:
            for k in range(roads.entry_start[machine], roads.entry_start[machine + 1]):
                reach.gate[roads.tail[roads.entry[k]]] = search


@inlined
def _fan(roads: Roads, reach: Reach, source: int, target: int, place: int, search: int, kind: int) -> int:
    """Collect in reach.fan the roads that a search may take from `place`; return how many."""
    count = 0
    if kind != PAIR:
        for road in range(roads.start[place], roads.start[place + 1]):
            if _may_take(roads, source, road, kind):
                reach.fan[count] = road
                count += 1
        return count
    for k in range(roads.near_start[place], roads.near_start[place + 1]):
        head = roads.head[roads.near[k]]
        is_dead_end = roads.back[head] == place and reach.gate[head] != search
        if not is_dead_end and _may_take(roads, source, roads.near[k], kind):
            reach.fan[count] = roads.near[k]
            count += 1
    for side in range(2):
        machine = roads.machine[source if side else target]
        if machine == FABRIC or machine == roads.machine[place] or (side and machine == roads.machine[target]):
            continue
        if reach.gate[place] == search:
            for k in range(roads.entry_start[machine], roads.entry_start[machine + 1]):
                if roads.tail[roads.entry[k]] == place and _may_take(roads, source, roads.entry[k], kind):
                    reach.fan[count] = roads.entry[k]
                    count += 1
    return count


@inlined
def _may_take(roads: Roads, source: int, road: int, kind: int) -> bool:
    """Return whether a path from `source` may take `road`: it leaves no machine but the one it started on."""
    here = roads.machine[roads.tail[road]]
    at_home = here == FABRIC or here == roads.machine[source]
    return kind == ANYWHERE or at_home or here == roads.machine[roads.head[road]]


@compiled
def _with_room(reach: Reach, goals: Longs, search: int, links: Ints) -> Ints:
    """Return a table of paths, wider if these need it."""
    hops = 0
    for goal in goals:
        if reach.seen[goal] == search:
            hops = max(hops, reach.hops[goal])
    if hops <= links.shape[1]:
        return links
    wider = np.full((len(links), hops), -1, np.int32)
    wider[:, : links.shape[1]] = links
    return wider


@compiled
def _trace(
    lanes: Lanes,
    tail: Longs,
    reach: Reach,
    sources: Longs,
    targets: Longs,
    draws: Longs,
    begin: int,
    end: int,
    search: int,
    links: Ints,
    ways: Longs,
) -> None:
    """Fill the rows begin:end with the paths that a search found, and how many there were to choose from."""
    for k in range(begin, end):
        node, draw, owner = targets[k], draws[k], -1
        if reach.seen[lanes.place[node]] != search:
            continue
        for hop in range(reach.hops[lanes.place[node]] - 1, -1, -1):
            road = reach.entered[lanes.place[node]]
            link, equal = lanes.link[lanes.start[road]], 1
            if reach.beside[road] >= 0 or lanes.start[road + 1] > lanes.start[road] + 1:
                link, equal = _chosen(lanes, tail, reach, node, sources[k], targets[k], owner, draw)
                draw //= equal
                ways[k] = min(ways[k] * equal, MOST_WAYS)
            links[k, hop] = link
            node = lanes.tail[link]
            if lanes.owner[lanes.place[node]] >= 0:
                owner = lanes.owner[lanes.place[node]]


@inlined
def _chosen(
    lanes: Lanes, tail: Longs, reach: Reach, node: int, source: int, target: int, owner: int, draw: int
) -> tuple[int, int]:
    """Return the link by which a path enters `node`, and how many were as good.

    Args:
        owner: the place of the GPU of the NIC that the path goes through next, -1: none.
    """
    place, foreign, equal = lanes.place[node], 1, 0
    road = reach.entered[place]
    while road >= 0:  # those of affinity, if there are
        here = _foreign(lanes, tail[road], source, target, owner)
        equal = equal if here >= foreign else 0
        foreign = min(foreign, here)
        equal += (here == foreign) * _lanes_into(lanes, road, place)
        road = reach.beside[road]
    pick, road = draw % equal, -1
    while True:
        road = _following(lanes, tail, reach, road, place, foreign, source, target, owner)
        count = _lanes_into(lanes, road, place)
        if pick < count:
            return lanes.link[lanes.start[road] + lanes.member[node] * count + pick], equal
        pick -= count


@inlined
def _foreign(lanes: Lanes, place: int, source: int, target: int, owner: int) -> int:
    """Return 0 for a place that affinity prefers, 1 for others."""
    is_nic = place == lanes.nic[source] or place == lanes.nic[target]
    is_door = place == lanes.door[source] or place == lanes.door[target]
    return int(not is_nic and not is_door and place != owner)


@inlined
def _lanes_into(lanes: Lanes, road: int, place: int) -> int:
    """Return by how many lanes a road enters each node of the place it leads to."""
    return int((lanes.start[road + 1] - lanes.start[road]) // lanes.members[place])


@inlined
def _following(
    lanes: Lanes, tail: Longs, reach: Reach, last: int, place: int, foreign: int, source: int, target: int, owner: int
) -> int:
    """Return the lowest road after `last` of those that are as good, and as foreign."""
    found, road = -1, reach.entered[place]
    while road >= 0:
        if (
            road > last
            and (found < 0 or road < found)
            and _foreign(lanes, tail[road], source, target, owner) == foreign
        ):
            found = road
        road = reach.beside[road]
    return found
