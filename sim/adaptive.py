"""Adaptive routing: pair after pair takes the path that the pairs before it have loaded least. Compiled.

A pair chooses among equal paths. Where switches say their `group`, as on a dragonfly, it chooses among the links
between its two groups, and detours through a third group, or through a third switch of its own: a path is as bad as its
hops between switches times the load of its most loaded link (UGAL: Universal Globally-Adaptive Load-balanced routing;
here by the load of the whole path and not of the first queue). The load of a link is what the pairs that take it would
need for a byte each. Of each kind of path only some are looked at, others for each pair.

References:
    Singh. "Load-Balanced Routing in Interconnection Networks." 2005: UGAL.
    Kim, Dally, Scott, Abts. "Technology-Driven, Highly-Scalable Dragonfly Topology." ISCA 2008.
    De Sensi, Di Girolamo, McMahon, Roweth, Hoefler. "An In-Depth Analysis of the Slingshot Interconnect." SC 2020.
"""

from typing import NamedTuple

import numpy as np

from sim.jit import compiled, inlined
from sim.roads import Lanes, Roads
from sim.routes import paths
from sim.state import Floats, Ints, Longs

LOOKS = 8  # paths of a kind that a pair looks at
DETOUR = 6  # links between switches of the longest: local, global, local, local, global, local
CHUNK = 1 << 15  # pairs whose equal paths are held at once


class Fabric(NamedTuple):
    """What paths are chosen on."""

    roads: Roads
    lanes: Lanes
    tail: Longs  # [links] the node a link leaves
    head: Longs  # [links] the node it enters
    group: Longs  # [nodes] of a switch, -1: none
    seconds: Floats  # [links] of a byte


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


def adapted(fabric: Fabric, source: Longs, target: Longs, table: Ints, ways: Longs) -> tuple[Ints, Longs]:
    """Return the links of each pair, -1 behind the end, and among how many paths it chose.

    Args:
        source, target: [pairs] nodes, in the order in which pairs choose; sources are sorted by rank.
        table, ways: [pairs, hops] the first of its equal paths, and how many there are.
    """
    load = np.zeros(len(fabric.tail))
    if (fabric.group >= 0).any():
        found: tuple[Ints, Longs] = _detoured(_groups(fabric), fabric.tail, fabric.head, fabric.seconds, load, table)
        return found
    table = table.copy()
    for begin in range(0, len(table), CHUNK):
        chunk = table[begin : begin + CHUNK]
        looks = np.minimum(ways[begin : begin + CHUNK], LOOKS)
        tables = np.full((int(looks.max()), *chunk.shape), -1, np.int32)
        tables[0] = chunk
        several = np.flatnonzero(looks > 1)
        pair = begin + several
        for look in range(len(tables) if len(several) else 0):
            draws = (pair + look * (ways[pair] // looks[several])) % ways[pair]
            rows, _ = paths(fabric.roads, fabric.lanes, source[pair], target[pair], draws)
            tables[look, several, : rows.shape[1]] = rows[:, : chunk.shape[1]]
        chosen = _least_loaded(tables, looks, fabric.seconds, load)
        chunk[:] = tables[chosen, np.arange(len(chunk))]
    return table, ways


def _groups(fabric: Fabric) -> Groups:
    """Return the switches of each group, and the links between them."""
    nodes = np.flatnonzero(fabric.group >= 0)
    _, group = np.unique(fabric.group[nodes], return_inverse=True)
    order = np.argsort(group, kind="stable")
    nodes, group = nodes[order], group[order]
    of = np.full(len(fabric.group), -1)
    of[nodes] = np.arange(len(nodes))
    groups = int(group.max()) + 1
    start = np.searchsorted(group, np.arange(groups + 1))
    tail, head = of[fabric.tail], of[fabric.head]
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
def _least_loaded(tables: Ints, looks: Longs, seconds: Floats, load: Floats) -> Longs:
    """Return which of its paths each pair takes, and add it to the load. What all of them share does not count."""
    chosen = np.zeros(len(looks), np.int64)
    for pair in range(len(looks)):
        least = np.inf
        for look in range(looks[pair]):
            worst = 0.0
            for hop in range(tables.shape[2]):
                link, shared = tables[look, pair, hop], True
                for other in range(looks[pair]):
                    shared &= tables[other, pair, hop] == link
                if link >= 0 and not shared:
                    worst = max(worst, load[link] + seconds[link])
            if worst < least:
                least, chosen[pair] = worst, look
        for hop in range(tables.shape[2]):
            link = tables[chosen[pair], pair, hop]
            if link >= 0:
                load[link] += seconds[link]
    return chosen


@compiled
def _detoured(
    groups: Groups, tail: Longs, head: Longs, seconds: Floats, load: Floats, table: Ints
) -> tuple[Ints, Longs]:
    """Return the links of each pair, with the best way from the switch it comes to first to the one it leaves last."""
    routes = np.full((len(table), table.shape[1] + DETOUR), -1, np.int32)
    choices, way, widest = np.ones(len(table), np.int64), np.empty(DETOUR, np.int64), 1
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
        between, choices[pair] = _best(groups, seconds, load, a, b, pair, way)
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


@inlined
def _best(groups: Groups, seconds: Floats, load: Floats, a: int, b: int, turn: int, way: Longs) -> tuple[int, int]:
    """Write the best links from switch a to b into `way`; return how many, and how many ways were looked at."""
    g, h = groups.group[a], groups.group[b]
    if g == h:
        return _within(groups, seconds, load, a, b, turn, way)
    count, looked, least = 0, 0, np.inf
    link, cost, looks = _across(groups, seconds, load, a, h, b, 0.0, 0, turn)
    looked += looks
    if link >= 0:
        least, count = cost, _write(groups, a, link, b, way, 0)
    many = len(groups.start) - 1
    for look in range(min(many, LOOKS)):
        middle = (turn + look * max(1, many // LOOKS)) % many
        if middle in (g, h):
            continue
        out, cost, _ = _across(groups, seconds, load, a, middle, -1, 0.0, 0, turn)
        if out < 0 or cost >= least:
            continue
        hops = 1 + (groups.tail[out] != a)
        onward, cost, looks = _across(groups, seconds, load, groups.head[out], h, b, cost / hops, hops, turn)
        looked += looks
        if onward >= 0 and cost < least:
            least, count = cost, _write(groups, a, out, -1, way, 0)
            count = _write(groups, groups.head[out], onward, b, way, count)
    return count, looked


@inlined
def _within(groups: Groups, seconds: Floats, load: Floats, a: int, b: int, turn: int, way: Longs) -> tuple[int, int]:
    """Write the best links between two switches of a group into `way`, as `_best` does."""
    begin = groups.start[groups.group[a]]
    members = groups.start[groups.group[a] + 1] - begin
    count, looked, least = 0, 0, np.inf
    direct = groups.local[a, b - begin]
    if direct >= 0:
        way[0], count, looked, least = direct, 1, 1, load[direct] + seconds[direct]
    for look in range(min(members, LOOKS)):
        middle = begin + (turn + look * max(1, members // LOOKS)) % members
        out, onward = groups.local[a, middle - begin], groups.local[middle, b - begin]
        if middle in (a, b) or out < 0 or onward < 0:
            continue
        looked += 1
        cost = 2 * max(load[out] + seconds[out], load[onward] + seconds[onward])
        if cost < least:
            way[0], way[1], count, least = out, onward, 2, cost
    return count, looked


@inlined
def _across(
    groups: Groups, seconds: Floats, load: Floats, a: int, h: int, b: int, worst: float, hops: int, turn: int
) -> tuple[int, float, int]:
    """Return the best link from the group of switch a to group h, what the way costs, and how many were looked at.

    The way goes on to switch b, unless that is -1, and comes from where `hops` links were loaded up to `worst`.
    """
    pair = groups.group[a] * (len(groups.start) - 1) + h
    begin = groups.between[pair]
    many, best, least, looked = groups.between[pair + 1] - begin, -1, np.inf, 0
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
        if most * links < least:
            best, least = link, most * links
    return best, least, looked


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
