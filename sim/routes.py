"""Static routes on a directed graph: Dijkstra from one source. Compiled.

The best path passes through the fewest GPUs, then has the least latency, then the fewest hops. Among equals,
looking back from the destination, the NIC of either end comes first (affinity), then the lowest node number.
Latencies are compared in whole picoseconds, so that equal paths are equal whatever the order of their links.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from sim.jit import compiled
from sim.state import Bools, Longs


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


class Reach(NamedTuple):
    """What a search from one source found, right for every node it settled."""

    gpus: Longs  # [nodes] passed through
    latency: Longs  # [nodes] picoseconds
    hops: Longs  # [nodes]; 0: not reached
    entered: Longs  # [nodes] the link that enters the node
    tied: Bools  # [nodes] another link is as good


@compiled
def paths(roads: Roads, source: int, targets: Longs) -> Longs:
    """Return the links from `source` to each target, [targets, hops], -1 behind the end.

    A target that cannot be reached has a row of -1.
    """
    reach = _search(roads, source, targets)
    longest = 1
    for target in targets:
        longest = max(longest, reach.hops[target])
    links = np.full((len(targets), longest), -1, np.int64)
    for k in range(len(targets)):
        node = targets[k]
        for hop in range(reach.hops[node] - 1, -1, -1):
            link = reach.entered[node]
            if reach.tied[node]:
                link = _chosen(roads, reach, source, targets[k], node)
            links[k, hop] = link
            node = roads.tail[link]
    return links


@compiled
def _search(roads: Roads, source: int, targets: Longs) -> Reach:
    """Settle the nodes around `source`, nearest first, until all targets are settled."""
    nodes, far = len(roads.start) - 1, np.iinfo(np.int64).max
    gpus, latency, hops = np.full(nodes, far), np.full(nodes, far), np.zeros(nodes, np.int64)
    entered, tied = np.full(nodes, -1), np.zeros(nodes, np.bool_)
    settled, wanted = np.zeros(nodes, np.bool_), np.zeros(nodes, np.bool_)
    missing = 0
    for target in targets:
        missing += not wanted[target]
        wanted[target] = True
    heap = [(0, 0, 0, source)]
    while len(heap) > 0 and missing > 0:
        passed, travelled, far_off, node = heappop(heap)
        if settled[node]:
            continue
        settled[node] = True
        missing -= wanted[node]
        passed += roads.is_gpu[node] and node != source
        for link in range(roads.start[node], roads.start[node + 1]):
            other = roads.head[link]
            new = (passed, travelled + roads.picoseconds[link], far_off + 1)
            old = (gpus[other], latency[other], hops[other])
            if not settled[other] and new < old:
                gpus[other], latency[other], hops[other] = new
                entered[other], tied[other] = link, False
                heappush(heap, (new[0], new[1], new[2], other))
            elif new == old:
                tied[other] = True
    return Reach(gpus, latency, hops, entered, tied)


@compiled
def _chosen(roads: Roads, reach: Reach, source: int, target: int, node: int) -> int:
    """Return the link that enters `node` on the way from `source` to `target`, among equally good ones."""
    chosen, best = -1, (2, 0)
    for k in range(roads.in_start[node], roads.in_start[node + 1]):
        link = roads.in_link[k]
        before = roads.tail[link]
        passed = reach.gpus[before] + (roads.is_gpu[before] and before != source)
        hops = reach.hops[before] + 1
        here = (passed, reach.latency[before] + roads.picoseconds[link], hops)
        if here == (reach.gpus[node], reach.latency[node], reach.hops[node]):
            foreign = before != roads.nic[source] and before != roads.nic[target]
            if (int(foreign), before) < best:
                chosen, best = link, (int(foreign), before)
    return chosen
