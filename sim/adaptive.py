"""Adaptive routing: pair after pair takes the path that the pairs before it have loaded least. Compiled.

A pair chooses among equal paths by the load of the most loaded link of each, which is what the pairs that take it would
need for a byte each; on a dragonfly, where switches say their `group`, also among detours (sim.ugal).
"""

from typing import NamedTuple

import numpy as np

from sim.jit import compiled
from sim.roads import Lanes, Roads
from sim.routes import paths
from sim.state import Floats, Ints, Longs
from sim.ugal import detoured, grouped

LOOKS = 8  # paths that a pair looks at
CHUNK = 1 << 15  # pairs whose equal paths are held at once


class Fabric(NamedTuple):
    """What paths are chosen on."""

    roads: Roads
    lanes: Lanes
    tail: Longs  # [links] the node a link leaves
    head: Longs  # [links] the node it enters
    group: Longs  # [nodes] of a switch, -1: none
    seconds: Floats  # [links] of a byte


def adapted(fabric: Fabric, source: Longs, target: Longs, table: Ints, ways: Longs) -> tuple[Ints, Longs]:
    """Return the links of each pair, -1 behind the end, and among how many paths it chose.

    Args:
        source, target: [pairs] nodes, in the order in which pairs choose; sources are sorted by rank.
        table, ways: [pairs, hops] the first of its equal paths, and how many there are.
    """
    load = np.zeros(len(fabric.tail))
    if (fabric.group >= 0).any():
        groups = grouped(fabric.tail, fabric.head, fabric.group)
        found: tuple[Ints, Longs] = detoured(groups, fabric.tail, fabric.head, fabric.seconds, load, table)
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
