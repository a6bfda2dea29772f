"""Scores: what a logit is besides a scaled product of query and key."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


class Score(NamedTuple):
    """How q . k becomes a logit: s = scale q . k, then softcap tanh(s / softcap), then s - slope |query - key|.

    The order is flash-attn's, and so is the distance: under a full mask it counts both ways.

    Attributes:
        softcap: 0: not capped. slopes: one of each query head at hand, (Hq,); None: no bias.
    """

    scale: float
    softcap: float = 0.0
    slopes: Floats | None = None

    @property
    def plain(self) -> bool:
        """Whether a logit is a scaled product and no more."""
        return not self.softcap and self.slopes is None


def alibi_slopes(heads: int) -> Floats:
    """The slope of each of a model's query heads, (H,): 2^(-8 i / n) for n a power of two.

    Other numbers of heads take those of the power of two below, and every second one of the power above.

    References:
        Press, Smith, Lewis. "Train Short, Test Long." 2022. arXiv:2108.12409, and the code that goes with it.
    """
    below = 1 << (heads.bit_length() - 1)
    return np.concatenate([_geometric(below), _geometric(2 * below)[::2][: heads - below]])


def _geometric(n: int) -> Floats:
    return np.asarray(2.0 ** (-8 * np.arange(1, n + 1) / n))
