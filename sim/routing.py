"""Routing: which of its equal paths a flow takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import networkx as nx
import numpy as np

from algorithms import unknown
from sim.hashing import Words, hashed
from sim.state import Longs

NAMES = ("static", "ecmp", "ideal", "adaptive")
LARGEST_SEED = 2**63


@dataclass(frozen=True)
class Routing:
    """How a path is chosen among equals.

    Attributes:
        name: static: always the one through the nodes that come first. ecmp: by a hash of both ends. ideal: the flow is
            split equally over all (a site then has a graph in which these are one). adaptive: the one least loaded by
            others, on a dragonfly also a detour (sim.adaptive).
        seed: of the hash.
    """

    name: str = "static"
    seed: int = 1

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ValueError(unknown("routing", self.name, NAMES))
        if not 0 <= self.seed < LARGEST_SEED:
            raise ValueError(f"seed of --routing ecmp must be from 0 to below 2^63, got {self.seed}")

    @classmethod
    def of(cls, graph: nx.DiGraph) -> Routing:
        """Return the routing that a graph's fabric is made for."""
        return cls(graph.graph.get("routing", "static"))

    @property
    def varies(self) -> bool:
        """Whether another seed gives other routes."""
        return self.name == "ecmp"

    def repeat(self, number: int) -> Routing:
        """Return the routing of a further run: with the seed that comes so many places after."""
        return replace(self, seed=self.seed + number) if self.varies and number else self

    def draws(self, source: Longs, destination: Longs) -> Longs:
        """Return a number for each pair of GPUs, whose digits say which of its equal ways it takes; 0: the first."""
        if not self.varies:
            return np.zeros(len(source), np.int64)
        words: Words = hashed(np.array([self.seed], np.uint64))
        for ends in (source, destination):
            words = hashed(words + ends.astype(np.uint64))
        return (words >> np.uint64(1)).astype(np.int64)

    def seeds(self, repeats: int) -> list[int]:
        """Return the seeds of so many runs."""
        return [self.repeat(number).seed for number in range(repeats)]

    def __str__(self) -> str:
        return f"ecmp:seed={self.seed}" if self.varies else self.name

    def assumptions(self) -> Iterator[str]:
        """Yield what the answer rests on."""
        if self.name == "ecmp":
            yield (
                "routing: hashed ECMP, one path for each pair of GPUs (libraries may open several connections a pair, "
                "which spread better)"
            )
        if self.name == "ideal":
            yield "routing: every flow is split equally over its equal paths, as no network quite does"
        if self.name == "adaptive":
            yield (
                "routing: adaptive, by flow: rank after rank, each pair that sends takes the least loaded of up to 8 "
                "equal paths, or on a dragonfly a detour where queue x hops is less (UGAL); all pairs of a program "
                "count as sending at once, and keep their path for the whole run (switches choose anew for each packet)"
            )


def parse(text: str) -> Routing:
    """Return the routing that static, ecmp, ecmp:seed=N, ideal or adaptive names.

    Raises:
        ValueError: there is none such.
    """
    name, colon, more = (part.strip() for part in text.partition(":"))
    if name not in NAMES:
        raise ValueError(unknown("routing", name, ("static", "ecmp[:seed=N]", "ideal", "adaptive"), also=NAMES))
    if not colon:
        return Routing(name)
    key, _, digits = (part.strip() for part in more.partition("="))
    if name != "ecmp" or key != "seed" or not digits.isdecimal():
        raise ValueError(f"--routing takes static, ecmp, ecmp:seed=N, ideal or adaptive, got {text[:60]!r}")
    return Routing(name, int(digits) if len(digits) < 20 else LARGEST_SEED)
