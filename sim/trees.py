"""Double binary trees over machines, with a chain inside each, as a collective library lays them for all-reduce.

Sanders, Speck, Traeff. "Two-tree algorithms for full bandwidth broadcast, reduction and scan." Parallel Computing 2009:
two trees over the same machines, of which the second has as leaves what are inner nodes of the first; each takes half.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from sim.flows import Flows
from sim.rings import Chains


def flows(chains: Chains) -> Flows:
    """Return what flows in two trees a port: along each of their links a part goes up, to be summed, and down.

    A byte of an all-reduce over n ranks counts 2 (n-1)/n times towards its bus bandwidth, as it does in rings.
    """
    machines = len(chains.heads[0])
    up = np.array(
        [
            pair
            for of_port in chains.heads
            for parents in two_trees(machines)
            for pair in (
                *((below, above) for chain in of_port for above, below in pairwise(chain)),
                *((of_port[child][0], of_port[parent][0]) for child, parent in parents),
            )
        ],
        np.int64,
    )
    both = np.concatenate([up, up[:, ::-1]])
    n = sum(len(chain) for chain in chains.heads[0])
    return Flows(both[:, 0], both[:, 1], 2 * len(chains.heads) * 2 * (n - 1) / n)


def two_trees(count: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the (child, parent) pairs of both trees over 0 .. count - 1; the second is the first, mirrored or shifted.

    Mirrored where count is even, shifted by one where it is odd: so no place but the roots is an inner node of both.
    """
    first = list(_tree(count))
    if count % 2:
        return first, [((a + 1) % count, (b + 1) % count) for a, b in first]
    return first, [(count - 1 - a, count - 1 - b) for a, b in first]


def _tree(count: int) -> Iterator[tuple[int, int]]:
    """Yield the (child, parent) pairs of a binary tree in which odd places are leaves and 0 is the root."""
    for place in range(1, count):
        bit = place & -place
        parent = (place ^ bit) | (bit << 1)
        yield place, parent if parent < count else place ^ bit
