"""Flows between ranks that all last: what rate they have together, and what each would have alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.network import Network
from sim.state import Floats, Ints, Longs


@dataclass(frozen=True)
class Flows:
    """Flows that have one rate, as those of a pipeline in its steady state have.

    Attributes:
        source, target: [flows] ranks.
        busbw: bus bandwidth of the collective that they make up, for each byte/s of a flow.
    """

    source: Longs
    target: Longs
    busbw: float


def common_rate(network: Network, flows: Flows) -> float:
    """Return the bytes/s that each flow has when all have the same: the least of a link's capacity over its flows."""
    used = uses(network, network.route(flows.source, flows.target))
    busy = used[: network.pad] > 0
    return float((network.capacity[:-1][busy] / used[: network.pad][busy]).min(initial=np.inf))


def busbw(network: Network, flows: Flows) -> float:
    """Return the bus bandwidth in bytes/s of the collective that flows make up."""
    return flows.busbw * common_rate(network, flows)


def uses(network: Network, routes: Ints) -> Longs:
    """Return how many of the routes each link is on, [links + 1]; the last counts nothing."""
    return np.bincount(routes.reshape(-1), minlength=network.pad + 1)


def alone(network: Network, source: npt.ArrayLike, target: npt.ArrayLike) -> Floats:
    """Return the bytes/s of each flow while all others are idle: its narrowest link's."""
    return np.asarray(network.capacity[network.route(source, target)].min(axis=1))


def both_ways(network: Network, source: npt.ArrayLike, target: npt.ArrayLike) -> Floats:
    """Return the bytes/s of each flow while one comes back the other way and all others are idle."""
    there, back = network.route(source, target), network.route(target, source)
    crossed = (there[:, :, None] == back[:, None, :]).any(axis=2)
    return np.asarray((network.capacity[there] / (1 + crossed)).min(axis=1))
