"""Sight: what each folded row of a tile sees, and what its logits are besides products; the same in both kernels."""

from typing import NamedTuple

import numpy as np

from algorithms.ir.mask import Interval
from algorithms.ir.score import Score
from executor.kernels import Array, Positions
from executor.kernels.shapes import Sizes
from executor.kernels.tiles import Rows


class Sight(NamedTuple):
    """Positions and slopes of rows that are heads of one group folded into tokens, (t * group,) each."""

    first: Positions
    """The first key that the row may see."""
    last: Positions
    at: Positions
    """The row's own position."""
    slopes: Array | None


def sight_of(interval: Interval, rows: Positions, span: Rows, head: int, score: Score, sizes: Sizes) -> Sight:
    """Fold what a span of queries sees, for the query heads of one kv head."""
    first, last, at = (np.repeat(x[span.slice], sizes.group) for x in (*interval, rows))
    slopes = score.slopes
    if slopes is not None:
        own = slopes[head * sizes.group : (head + 1) * sizes.group].astype(sizes.dtype)
        slopes = np.tile(own, len(at) // sizes.group)
    return Sight(first, last, at, slopes)


def to_logits(scores: Array, sight: Sight, cols: Positions, softcap: float) -> None:
    """Cap scaled products and bias them by distance, in place."""
    if softcap:
        scores /= softcap
        np.tanh(scores, out=scores)
        scores *= softcap
    if sight.slopes is not None:
        distance = np.abs(sight.at[:, None] - cols[None, :]).astype(scores.dtype)
        distance *= sight.slopes[:, None]
        scores -= distance


def slope_of_cap(scores: Array, softcap: float, out: Array) -> Array:
    """Return 1 - tanh^2 of scaled products / softcap, as 4 e / (1 + e)^2, e = exp(-2 |x|): 1 - t t would cancel."""
    np.abs(scores, out=out)
    out *= -2 / softcap
    np.exp(out, out=out)
    out *= 4 / (1 + out) ** 2
    return out
