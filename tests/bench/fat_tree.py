"""A fat tree of two levels, oversubscribed 2:1, with static routes by a hash of both ends (ECMP)."""

import numpy as np

from topologies.units import GB, us

NEAR, FAR = 400 * GB, 50 * GB
NODE, LEAF, SPINES = 8, 32, 16  # GPUs a machine, GPUs a leaf switch, uplinks of a leaf: half of its NICs


class FatTree:
    """A network of `ranks` GPUs, as `freeze` wants it: links, and routes that a formula gives."""

    def __init__(self, ranks):
        leaves = -(-ranks // LEAF)
        self.name, self.ranks = f"fat_tree({ranks})", ranks
        uplinks = leaves * SPINES
        counts = [(2 * ranks, NEAR, 0.5 * us), (2 * ranks, FAR, 1 * us), (2 * uplinks, FAR, 1 * us)]
        self.capacity = np.append(np.repeat([c for _, c, _ in counts], [n for n, _, _ in counts]), np.inf)
        self.latency = np.append(np.repeat([s for _, _, s in counts], [n for n, _, _ in counts]), 0.0)
        self.pad = len(self.capacity) - 1
        self.up, self.down = 4 * ranks, 4 * ranks + uplinks

    def route(self, source, destination):
        """Out by NVLink or NIC, up and down where the leaves differ, and in."""
        s, d = np.asarray(source), np.asarray(destination)
        is_far, is_across = s // NODE != d // NODE, s // LEAF != d // LEAF
        spine = (s * 2654435761 + d * 40503) % 2**32 // 65536 % SPINES
        hops = [
            s + 2 * self.ranks * is_far,
            np.where(is_across, self.up + s // LEAF * SPINES + spine, self.pad),
            np.where(is_across, self.down + d // LEAF * SPINES + spine, self.pad),
            d + self.ranks + 2 * self.ranks * is_far,
        ]
        table = np.stack(hops, axis=-1)
        order = np.argsort(table == self.pad, axis=-1, kind="stable")  # what is no link comes last
        return np.where((s == d)[..., None], self.pad, np.take_along_axis(table, order, axis=-1))
