"""Jitter: compute ops that take a little more or less each time, by a factor drawn for each op and rank.

The factor is lognormal with mean 1, and a function of (seed, repeat, op, rank) alone: the order in which ops are
looked at, and how many processes look, changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sim.handicap import scaled
from sim.hashing import Words, hashed
from sim.lower import Lowered
from sim.program import Frozen
from sim.state import Floats


@dataclass(frozen=True)
class Jitter:
    """How much compute times vary: `spread` is their relative standard deviation."""

    spread: float
    seed: int = 1
    repeat: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.spread < 1:
            raise ValueError(f"--jitter is a relative deviation above 0 and below 1, got {self.spread:g}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"--seed must be from 0 to below 2^63, got {self.seed}")

    def factors(self, op: int, ranks: int) -> Floats:
        """The factors of an op on each rank, (ranks,)."""
        key: Words = np.array([self.seed], np.uint64)
        for number in (self.repeat, op):
            key = hashed(key) + np.array([number], np.uint64)
        places: Words = np.arange(ranks).astype(np.uint64)
        words = hashed(hashed(key) + places)
        first, second = (_uniform(w) for w in (words, hashed(words)))
        normal = np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)  # Box and Muller
        variance = math.log1p(self.spread**2)
        return np.asarray(np.exp(math.sqrt(variance) * normal - variance / 2))


def jittered(frozen: Frozen, lowered: Lowered, jitter: Jitter) -> Frozen:
    """Vary the compute ops of a lowered schedule; launches and reductions inside collectives are as they were."""
    ops = [(op.id, first) for op, first in zip(lowered.schedule.ops, lowered.first, strict=True) if op.stream is None]
    return scaled(frozen, {first: jitter.factors(op, frozen.ranks) for op, first in ops if first >= 0})


class Band(NamedTuple):
    """Times of repeated runs, in seconds: the median, and what one in ten is below and above."""

    median: float
    p10: float
    p90: float

    @classmethod
    def of(cls, seconds: list[float]) -> Band:
        """The band of some times."""
        p10, median, p90 = np.quantile(seconds, (0.1, 0.5, 0.9))
        return cls(float(median), float(p10), float(p90))


def _uniform(words: Words) -> Floats:
    """In (0, 1)."""
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
