"""GPUs bound to the NIC that they name: what leaves or enters their machine takes it, however far it is.

Routes take the nearest NIC unless a GPU's node has `bound`. Then a path is made of three: from the GPU to its NIC, from
NIC to NIC, and from the other NIC to the other GPU.
"""

import networkx as nx
import numpy as np

from sim.roads import FABRIC, Lanes, Roads
from sim.routes import paths
from sim.state import Ints, Longs


def bindings(graph: nx.DiGraph) -> Longs:
    """Return the node of the NIC that each node is bound to, itself where it is to none, [nodes]."""
    number = {node: k for k, node in enumerate(graph.nodes)}
    return np.array(
        [number.get(data.get("nic"), k) if data.get("bound") else k for k, data in enumerate(graph.nodes.values())],
        np.int64,
    )


def through_bound(
    roads: Roads, lanes: Lanes, machine: Longs, bound: Longs, source: Longs, target: Longs, table: Ints
) -> Ints:
    """Return a table of paths with those by way of bound NICs where they are; -1 behind the end of each.

    Args:
        machine: [nodes]. bound: as of bindings. source, target: [pairs] nodes. table: [pairs, hops] paths without it.
    """
    apart = (machine[source] != machine[target]) & (machine[source] != FABRIC) & (table[:, 0] >= 0)
    rows = np.flatnonzero(apart & ((bound[source] != source) | (bound[target] != target)))
    if len(rows) == 0:
        return table
    stops = np.stack([source[rows], bound[source[rows]], bound[target[rows]], target[rows]])
    legs = np.concatenate([_leg(roads, lanes, *stops[k : k + 2]) for k in range(3)], axis=1)
    legs = np.take_along_axis(legs, np.argsort(legs < 0, axis=1, kind="stable"), axis=1)
    whole = np.full((len(table), max(table.shape[1], legs.shape[1])), -1, table.dtype)
    whole[:, : table.shape[1]] = table
    whole[rows] = -1
    whole[rows, : legs.shape[1]] = legs
    return whole


def _leg(roads: Roads, lanes: Lanes, source: Longs, target: Longs) -> Ints:
    """Return the paths from each source to its target."""
    order = np.argsort(source, kind="stable")
    found, _ = paths(roads, lanes, source[order], target[order], np.zeros(len(order), np.int64))
    table = np.empty_like(found)
    table[order] = found
    return table
