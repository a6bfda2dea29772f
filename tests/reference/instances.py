"""Random flows on random links: what `generate.py` gives to SimGrid and `tests/sim/test_reference.py` to the engine.

An instance follows from its seed and its regime alone, by Python's own generator, whose numbers are the same on
every version and machine.
"""

import random
from dataclasses import dataclass

REGIMES = ("zero", "equal", "random")  # latency: none, the same total for every flow, any
SEEDS = 120  # a regime
HOPS = 4


@dataclass(frozen=True)
class Instance:
    """Flows with explicit routes.

    Attributes:
        capacity, latency: [links] bytes/s and seconds.
        routes: [flows] link numbers.
        start, size: [flows] seconds and whole bytes.
    """

    capacity: list[float]
    latency: list[float]
    routes: list[list[int]]
    start: list[float]
    size: list[int]

    def delays(self) -> list[float]:
        """Return the latency of each flow's route."""
        return [sum(self.latency[link] for link in route) for route in self.routes]


def instance(regime: str, seed: int) -> Instance:
    """Return 2-24 flows over 1-4 of 2-12 links; an even seed has ties: few distinct starts and sizes."""
    draw = random.Random(f"{regime} {seed}")
    links, flows = draw.randint(2, 12), draw.randint(2, 24)
    capacity = [draw.uniform(1e9, 1e11) for _ in range(links)]
    routes = [draw.sample(range(links), draw.randint(1, min(HOPS, links))) for _ in range(flows)]
    latency = [draw.uniform(1e-6, 2e-5) if regime == "random" else 0.0 for _ in range(links)]
    if regime == "equal":
        latency = [1e-6] * links
        _lengthen(routes, capacity, latency)
    if seed % 2 == 0:
        start = [draw.choice([0.0, 1e-3, 2e-3]) for _ in range(flows)]
        size = [draw.choice([10**6, 10**8, 3 * 10**8]) for _ in range(flows)]
    else:
        start = [draw.uniform(0, 5e-3) for _ in range(flows)]
        size = [int(draw.uniform(1e6, 1e9) * draw.choice([0.1, 1])) for _ in range(flows)]
    return Instance(capacity, latency, routes, start, size)


def _lengthen(routes: list[list[int]], capacity: list[float], latency: list[float]) -> None:
    """Add fast links of each route's own until it has all hops."""
    for route in routes:
        while len(route) < HOPS:
            route.append(len(capacity))
            capacity.append(1e15)
            latency.append(1e-6)
