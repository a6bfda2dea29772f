"""Static routes on a directed graph in compressed rows: Dijkstra from one source. Compiled.

The best path passes through the fewest GPUs, then has the least latency, then the fewest hops. Among
equals the predecessor that was settled first wins: the nearest, then the lowest node number. Latencies
are compared in whole picoseconds, so that equal paths are equal whatever the order of their links.
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
    is_gpu: Bools  # [nodes]


@compiled
def paths(roads: Roads, source: int, targets: Longs) -> Longs:
    """Return the links from `source` to each target, [targets, hops], -1 behind the end.

    A target that cannot be reached has a row of -1.
    """
    entered, hops = _search(roads, source, targets)
    longest = 1
    for target in targets:
        longest = max(longest, hops[target])
    links = np.full((len(targets), longest), -1, np.int64)
    for k in range(len(targets)):
        node = targets[k]
        for hop in range(hops[node] - 1, -1, -1):
            links[k, hop] = entered[node]
            node = roads.tail[entered[node]]
    return links


@compiled
def _search(roads: Roads, source: int, targets: Longs) -> tuple[Longs, Longs]:
    """Return, per node, the link that enters it and the number of hops, right for every target."""
    nodes, far = len(roads.start) - 1, np.iinfo(np.int64).max
    gpus, latency, hops = np.full(nodes, far), np.full(nodes, far), np.zeros(nodes, np.int64)
    entered, settled, wanted = np.full(nodes, -1), np.zeros(nodes, np.bool_), np.zeros(nodes, np.bool_)
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
            other, arrival = roads.head[link], travelled + roads.picoseconds[link]
            old = (gpus[other], latency[other], hops[other])
            if not settled[other] and (passed, arrival, far_off + 1) < old:
                gpus[other], latency[other], hops[other] = passed, arrival, far_off + 1
                entered[other] = link
                heappush(heap, (passed, arrival, far_off + 1, other))
    return entered, hops
