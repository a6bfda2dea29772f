"""Routes on a dragonfly: pair after pair takes the shortest or a detour, by the queues that it would meet. Compiled.

A pair chooses among the links between its two groups, and detours through a third group, or through a third switch of
its own: a path is as bad as its hops between switches times the queue before its most loaded link (UGAL: Universal
Globally-Adaptive Load-balanced routing; here by the queues of the whole path and not the first). The load of a link is
what the pairs that take it would need for a byte each. Its queue is by how much that is more than the load of the links
by which the pair's GPUs reach their switches, since these let no more come; where there is none, load itself decides.
Of each kind of path only some are looked at, others for each pair.

References:
    Singh. "Load-Balanced Routing in Interconnection Networks." 2005: UGAL.
    Kim, Dally, Scott, Abts. "Technology-Driven, Highly-Scalable Dragonfly Topology." ISCA 2008.
    De Sensi, Di Girolamo, McMahon, Roweth, Hoefler. "An In-Depth Analysis of the Slingshot Interconnect." SC 2020.
"""

from typing import NamedTuple

import numpy as np

from sim.jit import compiled, inlined
from sim.state import Floats, Ints, Longs

LOOKS = 8  # paths of a kind that a pair looks at
DETOUR = 6  # links between switches of the longest: local, global, local, local, global, local
LOAD = 1e-3  # what load without a queue counts for, of what a queue does


class Groups(NamedTuple):
    """Switches by group."""

    of: Longs  # [nodes] the number of a switch, -1: it is in no group
    group: Longs  # [switches]
    start: Longs  # [groups + 1] group g has the switches start[g]:start[g + 1]
    local: Longs  # [switches, most of a group] the link to each switch of its group, -1: none
    between: Longs  # [groups^2 + 1] group g has the links far[between[g * groups + h]:between[g * groups + h + 1]] to h
    far: Longs  # [links between groups]
    tail: Longs  # [links] the switch a link leaves, -1: none
    head: Longs  # [links] the switch it enters


def grouped(tails: Longs, heads: Longs, said: Longs) -> Groups:
    """Return the switches of each group, and the links between them.

    Args:
        tails, heads: [links] the nodes that a link leaves and enters.
        said: [nodes] the group of a switch, -1: none.
    """
    nodes = np.flatnonzero(said >= 0)
    _, group = np.unique(said[nodes], return_inverse=True)
    order = np.argsort(group, kind="stable")
    nodes, group = nodes[order], group[order]
    of = np.full(len(said), -1)
    of[nodes] = np.arange(len(nodes))
    groups = int(group.max()) + 1
    start = np.searchsorted(group, np.arange(groups + 1))
    tail, head = of[tails], of[heads]
    inner = np.flatnonzero((tail >= 0) & (head >= 0))
    is_local = group[tail[inner]] == group[head[inner]]
    near, far = inner[is_local], inner[~is_local]
    local = np.full((len(nodes), int(np.diff(start).max())), -1)
    local[tail[near], head[near] - start[group[head[near]]]] = near
    pair = group[tail[far]] * groups + group[head[far]]
    far = far[np.argsort(pair, kind="stable")]
    between = np.searchsorted(np.sort(pair), np.arange(groups**2 + 1))
    return Groups(of, group, start, local, between, far, tail, head)


@compiled
def detoured(
    groups: Groups, tail: Longs, head: Longs, seconds: Floats, load: Floats, table: Ints
) -> tuple[Ints, Longs]:
    """Return the links of each pair, with the best way from the switch it comes to first to the one it leaves last.

    Args:
        tail, head, seconds, load: [links], as of sim.adaptive; the load is added to.
        table: [pairs, hops] the links of the shortest, -1 behind the end.
    Returns:
        the links, and [pairs] among how many ways each chose.
    """
    routes = np.full((len(table), table.shape[1] + DETOUR), -1, np.int32)
    choices, way, widest = np.ones(len(table), np.int64), np.empty(DETOUR, np.int64), 1
    ends = _at_ends(groups, head, seconds, table)
    for pair in range(len(table)):
        first, last, count = -1, -1, 0
        for hop in range(table.shape[1]):
            if table[pair, hop] >= 0:
                count += 1
                if groups.of[head[table[pair, hop]]] >= 0:
                    first, last = hop if first < 0 else first, hop
        if first < 0 or first == last:
            routes[pair, :count] = table[pair, :count]
            widest = max(widest, count)
            continue
        a, b = groups.of[head[table[pair, first]]], groups.of[head[table[pair, last]]]
        between, choices[pair] = _best(groups, seconds, load, a, b, ends[pair], pair, way)
        if between == 0:  # no better known than the one found: keep it
            between = last - first
            way[:between] = table[pair, first + 1 : last + 1]
        for k in range(between):
            load[way[k]] += seconds[way[k]]
        routes[pair, : first + 1] = table[pair, : first + 1]
        routes[pair, first + 1 : first + 1 + between] = way[:between]
        routes[pair, first + 1 + between : count - last + first + between] = table[pair, last + 1 : count]
        widest = max(widest, count - last + first + between)
    return routes[:, :widest].copy(), choices


@compiled
def _at_ends(groups: Groups, head: Longs, seconds: Floats, table: Ints) -> Floats:
    """Return of each pair the load of the most loaded link by which it comes to its first switch or leaves its last."""
    load, most = np.zeros(len(head)), np.zeros(len(table))
    for look in range(2):
        for pair in range(len(table)):
            first, last = len(table[pair]), -1
            for hop in range(table.shape[1]):
                if table[pair, hop] >= 0 and groups.of[head[table[pair, hop]]] >= 0:
                    first, last = min(first, hop), hop
            for hop in range(table.shape[1]):
                link = table[pair, hop]
                if link >= 0 and not first < hop <= last:
                    if look == 0:
                        load[link] += seconds[link]
                    else:
                        most[pair] = max(most[pair], load[link])
    return most


@inlined
def _wait(load: float, ends: float) -> float:
    """Return how bad a link of this load is for a pair whose own links have a load of `ends`."""
    return max(0.0, load - ends) + LOAD * load


@inlined
def _best(
    groups: Groups, seconds: Floats, load: Floats, a: int, b: int, ends: float, turn: int, way: Longs
) -> tuple[int, int]:
    """Write the best links from switch a to b into `way`; return how many, and how many ways were looked at."""
    g, h = groups.group[a], groups.group[b]
    if g == h:
        return _within(groups, seconds, load, a, b, ends, turn, way)
    count, looked, least = 0, 0, np.inf
    link, most, hops, looks = _across(groups, seconds, load, a, h, b, 0.0, 0, ends, turn)
    cost = _wait(most, ends) * hops
    looked += looks
    if link >= 0:
        least, count = cost, _write(groups, a, link, b, way, 0)
    many = len(groups.start) - 1
    for look in range(min(many, LOOKS)):
        middle = (turn + look * max(1, many // LOOKS)) % many
        if middle in (g, h):
            continue
        out, most, hops, _ = _across(groups, seconds, load, a, middle, -1, 0.0, 0, ends, turn)
        if out < 0 or _wait(most, ends) * hops >= least:
            continue
        onward, most, hops, looks = _across(groups, seconds, load, groups.head[out], h, b, most, hops, ends, turn)
        cost = _wait(most, ends) * hops
        looked += looks
        if onward >= 0 and cost < least:
            least, count = cost, _write(groups, a, out, -1, way, 0)
            count = _write(groups, groups.head[out], onward, b, way, count)
    return count, looked


@inlined
def _within(
    groups: Groups, seconds: Floats, load: Floats, a: int, b: int, ends: float, turn: int, way: Longs
) -> tuple[int, int]:
    """Write the best links between two switches of a group into `way`, as `_best` does."""
    begin = groups.start[groups.group[a]]
    members = groups.start[groups.group[a] + 1] - begin
    count, looked, least = 0, 0, np.inf
    direct = groups.local[a, b - begin]
    if direct >= 0:
        way[0], count, looked, least = direct, 1, 1, _wait(load[direct] + seconds[direct], ends)
    for look in range(min(members, LOOKS)):
        middle = begin + (turn + look * max(1, members // LOOKS)) % members
        out, onward = groups.local[a, middle - begin], groups.local[middle, b - begin]
        if middle in (a, b) or out < 0 or onward < 0:
            continue
        looked += 1
        cost = 2 * _wait(max(load[out] + seconds[out], load[onward] + seconds[onward]), ends)
        if cost < least:
            way[0], way[1], count, least = out, onward, 2, cost
    return count, looked


@inlined
def _across(
    groups: Groups,
    seconds: Floats,
    load: Floats,
    a: int,
    h: int,
    b: int,
    worst: float,
    hops: int,
    ends: float,
    turn: int,
) -> tuple[int, float, int, int]:
    """Return the best link from the group of switch a to group h, the most load and the hops by it, and the looks.

    The way goes on to switch b, unless that is -1, and comes from where `hops` links were loaded up to `worst`.
    """
    pair = groups.group[a] * (len(groups.start) - 1) + h
    begin = groups.between[pair]
    many, best, least, looked = groups.between[pair + 1] - begin, -1, np.inf, 0
    load_of_best, hops_of_best = np.inf, hops
    for look in range(min(many, LOOKS)):
        link = groups.far[begin + (turn + look * max(1, many // LOOKS)) % many]
        most, links = max(worst, load[link] + seconds[link]), hops + 1
        for side in range(2):
            x, y = (a, groups.tail[link]) if side == 0 else (groups.head[link], b)
            if y >= 0 and x != y:
                local = groups.local[x, y - groups.start[groups.group[y]]]
                most = np.inf if local < 0 else max(most, load[local] + seconds[local])
                links += 1
        looked += 1
        if _wait(most, ends) * links < least:
            best, least, load_of_best, hops_of_best = link, _wait(most, ends) * links, most, links
    return best, load_of_best, hops_of_best, looked


@inlined
def _write(groups: Groups, a: int, link: int, b: int, way: Longs, count: int) -> int:
    """Append to `way` a link to another group, with what leads to it from switch a and from it to b."""
    if groups.tail[link] != a:
        way[count] = groups.local[a, groups.tail[link] - groups.start[groups.group[a]]]
        count += 1
    way[count] = link
    count += 1
    if b >= 0 and groups.head[link] != b:
        way[count] = groups.local[groups.head[link], b - groups.start[groups.group[b]]]
        count += 1
    return count
