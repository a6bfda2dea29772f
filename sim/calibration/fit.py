"""The time of a collective as a curve of its size: a start, a term of the root, and a rate.

    t = alpha + gamma * sqrt(nbytes) + nbytes / rate

The root stands for the sizes between, where a library changes protocols and fills its pipeline step by step; without it
the fit to published tables is about twice as bad.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np


@dataclass(frozen=True)
class Fit:
    """A fit.

    Attributes:
        alpha: seconds. gamma: seconds a root of a byte. rate: bytes/s; inf where the root takes the whole slope.
        rms, worst: relative errors of the fit over its points; worst_at: the size of the worst.
    """

    alpha: float
    gamma: float
    rate: float
    rms: float
    worst: float
    worst_at: int

    def seconds(self, nbytes: float) -> float:
        """Return the time of a size."""
        return self.alpha + self.gamma * float(np.sqrt(nbytes)) + nbytes / self.rate


def fit(points: Mapping[int, float]) -> Fit | None:
    """Fit a curve to seconds by size, so that the relative errors squared are least; None of fewer than four points.

    No term is negative: of all choices of terms that give none, the best is taken.
    """
    if len(points) < 4:
        return None
    nbytes, seconds = np.array(list(points), np.float64), np.array(list(points.values()))
    terms = np.stack([np.ones(len(nbytes)), np.sqrt(nbytes), nbytes], axis=1) / seconds[:, None]
    best: tuple[float, np.typing.NDArray[np.float64]] | None = None
    for count in (1, 2, 3):
        for chosen in combinations(range(3), count):
            scale = np.linalg.norm(terms[:, chosen], axis=0)
            part = np.linalg.lstsq(terms[:, chosen] / scale, np.ones(len(nbytes)), rcond=None)[0] / scale
            if (part < 0).any():
                continue
            whole = np.zeros(3)
            whole[list(chosen)] = part
            wrong = float(np.sum((terms @ whole - 1) ** 2))
            if best is None or wrong < best[0] * (1 - 1e-9):
                best = wrong, whole
    assert best is not None  # one term alone is positive
    errors = np.abs(terms @ best[1] - 1)
    alpha, gamma, slope = best[1].tolist()
    return Fit(
        alpha,
        gamma,
        1 / slope if slope > 0 else np.inf,
        float(np.sqrt(np.mean(errors**2))),
        float(errors.max()),
        int(nbytes[errors.argmax()]),
    )
