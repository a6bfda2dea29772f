"""Jitter: compute ops that take a little more or less each time, by a factor drawn for each op and rank.

The factor is lognormal with mean 1, or between measured quantiles, and a function of (seed, repeat, op, rank) alone:
the order in which ops are looked at, and how many processes look, changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sim.handicap import scaled
from sim.hashing import Words, hashed
from sim.lowered import Lowered
from sim.program import Frozen
from sim.quantiles import Quantiles
from sim.state import Floats


@dataclass(frozen=True)
class Jitter:
    """How much compute times vary.

    Attributes:
        spread: relative standard deviation of a lognormal factor of mean 1, or measured quantiles of the factor.
    """

    spread: float | Quantiles
    seed: int = 1
    repeat: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.spread, Quantiles) and not 0 < self.spread < 1:
            raise ValueError(f"--jitter is a relative deviation above 0 and below 1, got {self.spread:g}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"--seed must be from 0 to below 2^63, got {self.seed}")

    def factors(self, op: int, ranks: int, kind: str = "") -> Floats:
        """The factors of an op on each rank, (ranks,).

        Args:
            op: its place among the compute ops, so that what is the same program draws the same.
        """
        key: Words = np.array([self.seed], np.uint64)
        for number in (self.repeat, op):
            key = hashed(key) + np.array([number], np.uint64)
        words = hashed(hashed(key) + np.arange(ranks).astype(np.uint64))
        if isinstance(self.spread, Quantiles):
            return self.spread.factors(kind, _uniform(words))
        return _lognormal(self.spread, _uniform(words), _uniform(hashed(words)))

    def describe(self) -> dict[str, Any]:
        """What varies, and how, as results echo it."""
        law = self.spread.describe() if isinstance(self.spread, Quantiles) else {"spread": self.spread}
        return law | {"seed": self.seed}

    def assumption(self) -> str:
        """What is assumed, as a line."""
        law = self.spread.assumption() if isinstance(self.spread, Quantiles) else "a lognormal factor of mean 1"
        return f"jitter: each compute op on each rank, by itself, takes its time by {law}"

    def __str__(self) -> str:
        return str(self.spread) if isinstance(self.spread, Quantiles) else f"{self.spread:g}"


def jittered(frozen: Frozen, lowered: Lowered, jitter: Jitter) -> Frozen:
    """Vary the compute ops of a lowered schedule; launches and reductions inside collectives are as they were."""
    computes = [
        (op.kind, first)
        for op, first in zip(lowered.schedule.ops, lowered.first, strict=True)
        if op.stream is None and first >= 0
    ]
    return scaled(
        frozen,
        {first: partial(jitter.factors, place, frozen.ranks, kind) for place, (kind, first) in enumerate(computes)},
    )


def _lognormal(spread: float, first: Floats, second: Floats) -> Floats:
    """Lognormal factors of mean 1 from uniform ones."""
    normal = np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)  # Box and Muller
    variance = math.log1p(spread**2)
    return np.asarray(np.exp(math.sqrt(variance) * normal - variance / 2))


def _uniform(words: Words) -> Floats:
    """In (0, 1)."""
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
