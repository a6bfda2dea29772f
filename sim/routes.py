"""Static routes on a directed graph: Dijkstra, from a source to its targets. Compiled.

The best path passes through the fewest GPUs, then has the least latency, then the fewest hops. Among equals,
looking back from the destination, the NIC of either end comes first (affinity), then the lowest node number.
Latencies are compared in whole picoseconds, so that equal paths are equal whatever the order of their links.

A path keeps to the machine it starts on, the fabric and the machine it ends on, which it does not leave again;
other machines forward only where there is no such path. So a rail of 2,048 NICs is searched as fast as one of two.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from sim.jit import compiled, inlined
from sim.state import Bools, Longs

FABRIC = -1  # the machine of a node that belongs to none
PAIR, SOURCE, ANYWHERE = 0, 1, 2  # searches: for one target, for all targets of a source, through any machine
PAIR_NODES = 20  # a search for one target costs about as much as this many nodes of one for all
HOPS = 8  # room for a path, at first


class Roads(NamedTuple):
    """A graph whose links are sorted by tail: node n has the links start[n]:start[n + 1]."""

    start: Longs  # [nodes + 1]
    tail: Longs  # [links] the node a link leaves
    head: Longs  # [links] the node a link enters
    picoseconds: Longs  # [links] latency
    in_start: Longs  # [nodes + 1] node n is entered by in_link[in_start[n]:in_start[n + 1]]
    in_link: Longs  # [links]
    is_gpu: Bools  # [nodes]
    nic: Longs  # [nodes] the NIC that goes with a GPU, -1: none is named
    machine: Longs  # [nodes] or FABRIC
    near_start: Longs  # [nodes + 1] node n has the links near[near_start[n]:near_start[n + 1]]
    near: Longs  # links into the fabric, and within a machine
    entry_start: Longs  # [machines + 1] machine m is entered by entry[entry_start[m]:entry_start[m + 1]]
    entry: Longs  # links into a machine from outside


class Reach(NamedTuple):
    """What the latest search found: right for every node it settled, void where `seen` is not its number."""

    seen: Longs  # [nodes] the search that reached the node last
    settled: Longs  # [nodes] the search that settled it last
    wanted: Longs  # [nodes] the search that it was a target of last
    gpus: Longs  # [nodes] passed through
    latency: Longs  # [nodes] picoseconds
    hops: Longs  # [nodes]
    entered: Longs  # [nodes] the link that enters the node
    tied: Longs  # [nodes] 1: another link is as good
    fan: Longs  # [links] the links to try from the node at hand


@compiled
def paths(roads: Roads, sources: Longs, targets: Longs) -> Longs:
    """Return the links from each source to its target, [pairs, hops], -1 behind the end; sources are sorted.

    A target that cannot be reached has a row of -1.
    """
    nodes = len(roads.start) - 1
    a, b, c, d, e, f, g, h = np.zeros((8, nodes), np.int64)
    reach = Reach(a, b, c, d, e, f, g, h, np.zeros(len(roads.head), np.int64))
    links, search, begin = np.full((len(sources), HOPS), -1, np.int64), 0, 0
    while begin < len(sources):
        end = begin + 1
        while end < len(sources) and sources[end] == sources[begin]:
            end += 1
        one_by_one = (end - begin) * PAIR_NODES < nodes
        while begin < end:
            last = begin + 1 if one_by_one else end
            search += 1
            kind = PAIR if one_by_one else SOURCE
            if not _search(roads, reach, sources[begin], targets[begin:last], search, kind):
                search += 1
                kind = ANYWHERE
                _search(roads, reach, sources[begin], targets[begin:last], search, kind)
            links = _trace(roads, reach, sources, targets, begin, last, search, kind, links)
            begin = last
    return links


@compiled
def _search(roads: Roads, reach: Reach, source: int, targets: Longs, search: int, kind: int) -> bool:
    """Settle the nodes around `source`, nearest first, until all targets are; return whether they are."""
    missing = 0
    for target in targets:
        missing += reach.wanted[target] != search
        reach.wanted[target] = search
    _label(reach, source, search, 0, 0, 0, -1)
    heap = [(0, 0, 0, source)]
    while len(heap) > 0 and missing > 0:
        passed, travelled, far_off, node = heappop(heap)
        if reach.settled[node] == search:
            continue
        reach.settled[node] = search
        missing -= reach.wanted[node] == search
        passed += roads.is_gpu[node] and node != source
        for k in range(_fan(roads, reach, source, targets[0], node, kind)):
            link = reach.fan[k]
            other = roads.head[link]
            new = (passed, travelled + roads.picoseconds[link], far_off + 1)
            old = (reach.gpus[other], reach.latency[other], reach.hops[other])
            if reach.seen[other] != search or (reach.settled[other] != search and new < old):
                _label(reach, other, search, new[0], new[1], new[2], link)
                heappush(heap, (new[0], new[1], new[2], other))
            elif new == old:
                reach.tied[other] = 1
    return missing == 0


@inlined
def _label(reach: Reach, node: int, search: int, gpus: int, latency: int, hops: int, link: int) -> None:
    """Note the best way to `node` so far."""
    reach.seen[node], reach.entered[node], reach.tied[node] = search, link, 0
    reach.gpus[node], reach.latency[node], reach.hops[node] = gpus, latency, hops


@inlined
def _fan(roads: Roads, reach: Reach, source: int, target: int, node: int, kind: int) -> int:
    """Collect in reach.fan the links that a search may take from `node`; return how many."""
    count = 0
    if kind != PAIR:
        for link in range(roads.start[node], roads.start[node + 1]):
            if _may_take(roads, source, link, kind):
                reach.fan[count] = link
                count += 1
        return count
    for k in range(roads.near_start[node], roads.near_start[node + 1]):
        if _may_take(roads, source, roads.near[k], kind):
            reach.fan[count] = roads.near[k]
            count += 1
    for side in range(2):
        machine = roads.machine[source if side else target]
        if machine == FABRIC or machine == roads.machine[node] or (side and machine == roads.machine[target]):
            continue
        for k in range(roads.entry_start[machine], roads.entry_start[machine + 1]):
            if roads.tail[roads.entry[k]] == node and _may_take(roads, source, roads.entry[k], kind):
                reach.fan[count] = roads.entry[k]
                count += 1
    return count


@inlined
def _may_take(roads: Roads, source: int, link: int, kind: int) -> bool:
    """Return whether a path from `source` may take `link`: it leaves no machine but the one it started on."""
    here = roads.machine[roads.tail[link]]
    at_home = here == FABRIC or here == roads.machine[source]
    return kind == ANYWHERE or at_home or here == roads.machine[roads.head[link]]


@compiled
def _trace(
    roads: Roads,
    reach: Reach,
    sources: Longs,
    targets: Longs,
    begin: int,
    end: int,
    search: int,
    kind: int,
    links: Longs,
) -> Longs:
    """Fill the rows begin:end of `links` with the paths that a search found; return the table, wider if need be."""
    for k in range(begin, end):
        node = targets[k]
        if reach.seen[node] != search:
            continue
        if reach.hops[node] > links.shape[1]:
            wider = np.full((len(links), reach.hops[node]), -1, np.int64)
            wider[:, : links.shape[1]] = links
            links = wider
        for hop in range(reach.hops[node] - 1, -1, -1):
            link = reach.entered[node]
            if reach.tied[node]:
                link = _chosen(roads, reach, sources[k], targets[k], node, search, kind)
            links[k, hop] = link
            node = roads.tail[link]
    return links


@compiled
def _chosen(roads: Roads, reach: Reach, source: int, target: int, node: int, search: int, kind: int) -> int:
    """Return the link that enters `node` on the way from `source` to `target`, among equally good ones."""
    chosen, best = -1, (2, 0)
    for k in range(roads.in_start[node], roads.in_start[node + 1]):
        link = roads.in_link[k]
        before = roads.tail[link]
        if reach.settled[before] != search or not _may_take(roads, source, link, kind):
            continue
        passed = reach.gpus[before] + (roads.is_gpu[before] and before != source)
        here = (passed, reach.latency[before] + roads.picoseconds[link], reach.hops[before] + 1)
        if here == (reach.gpus[node], reach.latency[node], reach.hops[node]):
            foreign = before != roads.nic[source] and before != roads.nic[target]
            if (int(foreign), before) < best:
                chosen, best = link, (int(foreign), before)
    return chosen
