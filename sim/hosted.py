"""Links that the host drives: what goes over one is copied by the processors of both its ends, which compute meanwhile
nothing else. Such a transfer takes a place in the compute streams, where the executor waits for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.ir.expr import Ints
from sim.network import Network


class Split(NamedTuple):
    """Receivers of what each rank sends, -1: none, over links that the host drives and over others; None: nobody's."""

    by_host: Ints | None
    offloaded: Ints | None


class Hosted:
    """Which flows of a network the host drives: those whose route has a link that is not offloaded."""

    def __init__(self, network: Network) -> None:
        """Answer for the routes of this network."""
        self.network = network
        self._known: dict[int, tuple[Ints, Split]] = {}

    @classmethod
    def on(cls, network: Network) -> Hosted | None:
        """Return what answers for a network; None where the host drives no link."""
        return cls(network) if network.by_host.any() else None

    def split(self, dst: Ints) -> Split:
        """Split what ranks send to dst, (P,), by who drives it."""
        if id(dst) not in self._known:
            self._known[id(dst)] = dst, self._split(dst)
        return self._known[id(dst)][1]

    def _split(self, dst: Ints) -> Split:
        ranks = np.arange(len(dst))
        sends = (dst >= 0) & (dst != ranks)
        driven = np.zeros(len(dst), bool)
        driven[sends] = self.network.by_host[self.network.route(ranks[sends], dst[sends])].any(axis=1)
        if not driven.any():
            return Split(None, dst)
        return Split(np.where(driven, dst, -1), np.where(driven, -1, dst) if (sends & ~driven).any() else None)
