"""Rings through all GPUs at once, as a collective library lays them for large messages.

a port of several GPUs:   ... -> NIC j -> gpu a -> ... all others ... -> gpu b -> NIC j -> next machine
ports of one GPU each:    ... -> NIC j -> gpu j -> ... -> gpu k -> NIC k -> gpu k -> ... -> gpu j -> NIC j -> ...

In the second form a ring leaves a machine by the NIC by which it enters the next, so that none changes its rail: of an
even number of machines it goes from j to k and back, of an odd number the last three from j to k to l to j.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations

import numpy as np

from algorithms.ways import hamilton
from sim import torus
from sim.flows import Flows, busbw, uses
from sim.islands import ports
from sim.network import Network
from sim.walks import SEARCHED, Walker

MOST_RINGS = 16  # that are searched for on one island
SAME = 1e-9  # relative: rates that are one
Ring = list[int]  # ranks in the order in which it goes round


@dataclass(frozen=True)
class Chains:
    """How each ring passes through each island.

    Attributes:
        rings: the whole rings. heads: [rings][islands] the ranks of an island from the GPU of the ring's port on.
    """

    rings: list[Ring]
    heads: list[list[Ring]]


def flows(all_rings: Sequence[Ring]) -> Flows:
    """Return what flows in rings: from each rank to the next of each."""
    source = np.array([rank for ring in all_rings for rank in ring], np.int64)
    target = np.array([rank for ring in all_rings for rank in [*ring[1:], ring[0]]], np.int64)
    return Flows(source, target, float(len(all_rings)))


def inside(network: Network, ranks: list[int]) -> list[Ring]:
    """Return the rings of an all-reduce on one island, all of which carry an equal part of it.

    Of the sets tried the best; of sets as good, the one with fewest.
    """
    best: list[Ring] = []
    reached = 0.0
    for some in (*_plain(network, ranks), *_searched(network, ranks)):
        rate = busbw(network, flows(some))
        if rate > reached * (1 + SAME):
            best, reached = some, rate
    return best


def _plain(network: Network, ranks: list[int]) -> list[list[Ring]]:
    """Return sets of rings that need no search: in the order of ranks, to and fro, all of a torus or of a full mesh."""
    some = [[ranks], [ranks, [*reversed(ranks)]]]
    shape = torus.sides(_cabled(network, ranks))
    if shape:
        cycles = [[ranks[place] for place in cycle] for cycle in torus.cycles(shape)]
        some.append([ring for cycle in cycles for ring in (cycle, [*reversed(cycle)])])
    if _is_mesh(network, ranks):
        n = len(ranks)
        if n in (4, 6):  # of which no n - 1 rings use each link once: all there are use each alike
            some.append([[ranks[0], *rest] for rest in permutations(ranks[1:])])
        else:
            some.append([[ranks[place] for place in cycle] for cycle in hamilton.cycles(n)])
    return some


def _cabled(network: Network, ranks: list[int]) -> list[list[int]]:
    """Return of each place of an island the places that it has a cable to, sorted."""
    places = np.full(len(network.machine), -1)
    places[network.node[ranks]] = np.arange(len(ranks))
    tail, head = places[network.tail], places[network.head]
    found: list[list[int]] = [[] for _ in ranks]
    for a, b in sorted(zip(tail.tolist(), head.tolist(), strict=True)):
        if min(a, b) >= 0:
            found[a].append(b)
    return found


def _is_mesh(network: Network, ranks: list[int]) -> bool:
    """Whether each two GPUs of an island have a link of their own."""
    n = len(ranks)
    if n >= hamilton.LARGEST:
        return False
    table = network.route(np.repeat(ranks, n), np.tile(ranks, n)).reshape(n, n, -1)
    return bool((table[..., 1:] == network.pad).all()) and len(np.unique(table[..., 0])) == n * (n - 1) + 1


def _searched(network: Network, ranks: list[int]) -> list[list[Ring]]:
    """Return sets of one ring, of two and so on, each beside those before."""
    if len(ranks) > SEARCHED:
        return []
    walker = Walker.of(network, ranks, np.zeros(network.pad + 1, np.int64))
    found = [[ranks[place] for place in walker.walk(0)] for _ in range(MOST_RINGS)]
    return [found[: count + 1] for count in range(MOST_RINGS)]


def across(network: Network, parts: list[list[int]], reached: Callable[[Flows], float] | None = None) -> Chains:
    """Return the rings of an all-reduce over at least two islands: of the sets tried the best.

    They pass through the others as through the first. At most one ring a port is laid. Fewer are where that is better
    to leave out the ports that are farther from their GPUs than others; not those that are as near and slower, of
    which a library knows nothing.

    Args:
        reached: the busbw of a set, bytes/s; that on the network unless given.
    """
    value = reached or partial(busbw, network)
    exits = ports(network, parts)
    most = float(network.capacity[list(exits)].sum())
    best, rate = None, -np.inf
    for chains in _sets(network, parts, list(exits.values())):
        found = value(flows(chains.rings))
        if best is None or found > rate * (1 + SAME):
            best, rate = chains, found
        if rate >= most * (1 - SAME):
            break
    assert best is not None
    return best


def _sets(network: Network, parts: list[list[int]], by_port: list[list[int]]) -> Iterator[Chains]:
    """Yield sets of chains: one for each port, searched for in the order of ranks and backwards, and then fewer."""
    n = len(by_port)
    yield _by_search(network, parts, by_port)
    if n == len(parts[0]) and not hamilton.why_not(n + 1) and _is_mesh(network, parts[0]):
        yield _through_mesh(parts)
    if len(parts[0]) <= SEARCHED:
        yield _by_search(network, parts, by_port[::-1])
    here = [parts[0][places[0]] for places in by_port]
    routes = network.route(here, [parts[1][places[0] % len(parts[1])] for places in by_port])
    away = (routes < network.pad).sum(axis=1)
    for most in np.unique(away)[:-1]:
        yield _by_search(network, parts, [by_port[k] for k in np.flatnonzero(away <= most)])


def _through_mesh(parts: list[list[int]]) -> Chains:
    """Return chains through islands that are full meshes: one for each GPU, which together use each link once.

    They are the cycles through one place more, without that place; every second island is walked backwards.
    """
    extra = len(parts[0])
    cuts = [(cycle, cycle.index(extra)) for cycle in hamilton.cycles(extra + 1)]
    walks = [[*cycle[cut + 1 :], *cycle[:cut]] for cycle, cut in cuts]
    heads = [[_on(walk, ranks) for ranks in parts] for walk in walks]
    rings = [
        [rank for number, chain in enumerate(chains) for rank in (reversed(chain) if number % 2 else chain)]
        for chains in heads
    ]
    return Chains(rings, heads)


def _by_search(network: Network, parts: list[list[int]], by_port: list[list[int]]) -> Chains:
    """Return chains of which each is searched for beside those before."""
    entries = [0] * len(parts)
    if any(len(places) == 1 for places in by_port):
        entries = _entries(len(parts), len(by_port))
    kinds = list(zip(entries, [*entries[1:], entries[0]], strict=True))
    walks = {kind: _walks(network, parts, by_port, *kind) for kind in dict.fromkeys(kinds)}
    rings: list[Ring] = []
    for port in range(len(by_port)):
        each = (_on(walks[kind][port], ranks) for kind, ranks in zip(kinds, parts, strict=True))
        rings.append([rank for chain in each for rank in chain])
    return Chains(rings, [[_on(walk, ranks) for ranks in parts] for walk in walks[kinds[0]]])


def _entries(machines: int, ports: int) -> list[int]:
    """Return by how many ports after its own each ring enters each machine: no two machines in turn have the same.

    Half of all ports on is so far that no switch has both. An odd number of machines takes a third port, if there is.
    """
    half = ports // 2
    entries = [half * (machine % 2) for machine in range(machines)]
    if machines % 2 and machines > 1 and ports > 2:
        entries[-1] = half // 2 or half + 1
    return entries


def _on(walk: list[int], ranks: list[int]) -> Ring:
    """Return the ranks of an island in the order of a walk; what it has more than the first comes last but one."""
    places = [place for place in walk if place < len(ranks)]
    more = [*range(len(walk), len(ranks))]
    return [ranks[place] for place in (*places[:-1], *more, *places[-1:])]


def _walks(
    network: Network, parts: list[list[int]], by_port: list[list[int]], entry: int, leave: int
) -> list[list[int]]:
    """Return the places of an island in the order in which each port's ring passes them.

    What enters and leaves loads the island's links too, before any walk does.

    Args:
        entry, leave: by how many ports after its own a ring enters and leaves the island.
    """
    here, there = parts[0], parts[1]
    turned = [(by_port[(j + entry) % len(by_port)], by_port[(j + leave) % len(by_port)]) for j in range(len(by_port))]
    size, alternates = len(there), entry != leave
    ends = [(inward[0], outward[0] if alternates else outward[min(1, len(outward) - 1)]) for inward, outward in turned]
    leaves = [(here[last], there[(last if alternates else first) % size]) for first, last in ends]
    enters = [(there[(first if alternates else last) % size], here[first]) for first, last in ends]
    source, target = np.array([*leaves, *enters], np.int64).T
    walker = Walker.of(network, here, uses(network, network.route(source, target)))
    return [walker.walk(first, last) for first, last in ends]
