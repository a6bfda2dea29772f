"""How far from dense attention a result may be: the bounds of the exactness tests, in one place.

    |out error| <= 16 eps (1 + max|s|) max|v|
    |lse error| <= 16 eps (1 + max|s| + log N)
    |gradient error| <= 16 eps (1 + max|s|) * its own contraction over absolute values, entry by entry

where results are kept in a coarser dtype than they are computed in, more by

    4 eps_kept (1 + max|lse|) max|v|, the same for lse, and that times the contraction for gradients

s are the visible logits (q . k * scale, capped and biased, and the sinks), N the number of keys, eps of the dtype that
was computed in. A score of size |s| carries a rounding error of eps |s|, which exp turns into a relative one: hence
(1 + max|s|). For gradients of capped scores 2 max|q . k * scale| / softcap may stand in its place: by as much is the
slope of the cap off, relatively. What is kept is rounded once a merge, not once a product, and a rounded lse is a
relative error eps_kept |lse| of its block's weight: 16 (1 + max|s|) of float16 would let a scale pass that is wrong by
a twentieth. Values below the smallest normal number of a dtype are rounded as that number is.

A softmax weight below the smallest normal number of the dtype may come out as 0: the contraction is taken over
weights raised by that number / eps, which matters only where they have all but vanished.

The bounds say how rounding errors add up in practice, not at worst: thousands of equal weights on equal values
round the same way each time, and their sum can drift past (measured: 1.5 times the bound, float32, 64K keys).
"""

import math
from typing import NamedTuple

import numpy as np

from algorithms.ir.mask import Mask
from algorithms.ir.score import Score
from executor.kernels import Array, Positions
from executor.kernels.dense import contract, score_blocks, softmax_blocks

FACTOR = 16
KEPT_FACTOR = 4


class ForwardBounds(NamedTuple):
    """The greatest allowed error of any entry of out and of lse."""

    out: float
    lse: float


class BackwardBounds(NamedTuple):
    """The allowed error of each entry, in the shapes of q, k and v, and of each sink."""

    dq: Array
    dk: Array
    dv: Array
    dsinks: Array


def forward_bounds(
    q: Array,
    k: Array,
    v: Array,
    rows: Positions,
    cols: Positions,
    mask: Mask,
    score: Score,
    eps: float,
    kept: float = 0.0,
    sinks: Array | None = None,
) -> ForwardBounds:
    """Return the allowed errors of out and lse for a computation with unit roundoff `eps`.

    Args:
        kept: unit roundoff of what is kept between ops, if coarser.
    """
    largest = largest_score(q, k, rows, cols, mask, score, sinks)
    value = float(np.abs(v.astype(np.float64)).max(initial=0.0))
    log_keys = math.log(max(1, len(cols)))
    stored = _stored(q, k, rows, cols, mask, score, kept, sinks)
    out = FACTOR * eps * (1 + largest) * max(value, tiny(eps)) + stored * max(value, tiny(kept))
    return ForwardBounds(out, FACTOR * eps * (1 + largest + log_keys) + stored)


def backward_bounds(
    q: Array,
    k: Array,
    v: Array,
    do: Array,
    rows: Positions,
    cols: Positions,
    mask: Mask,
    score: Score,
    eps: float,
    kept: float = 0.0,
    sinks: Array | None = None,
) -> BackwardBounds:
    """Return the allowed errors of dq, dk, dv and dsinks for a computation with unit roundoff `eps`.

    Args:
        kept: unit roundoff of what is kept between ops, if coarser.
    """
    q, k, v, do = (x.astype(np.float64) for x in (q, k, v, do))
    softmax = softmax_blocks(q, k, rows, cols, mask, score, sinks)
    parts = (part._replace(weights=part.weights + tiny(eps) / eps) for part in softmax)
    absolute = contract(parts, np.abs(q), np.abs(k), np.abs(v), np.abs(do), abs(score.scale), minus=+1)
    largest = largest_score(q, k, rows, cols, mask, score, sinks)
    if score.softcap:
        product = largest_score(q, k, rows, cols, mask, Score(score.scale))
        largest = max(largest, 2 * product / score.softcap)
    computed = FACTOR * eps * (1 + largest)
    stored = _stored(q, k, rows, cols, mask, score, kept, sinks)
    least = computed * tiny(eps) + stored * tiny(kept)
    return BackwardBounds(*((computed + stored) * x + least for x in absolute))


def tiny(eps: float) -> float:
    """Return the smallest normal number of the dtype of this unit roundoff; 0 of none."""
    names = (name for name in ("float16", "float32", "float64") if 0 < float(np.finfo(name).eps) <= eps)
    return next((float(np.finfo(name).tiny) for name in names), 0.0)


def _stored(
    q: Array,
    k: Array,
    rows: Positions,
    cols: Positions,
    mask: Mask,
    score: Score,
    kept: float,
    sinks: Array | None,
) -> float:
    """Return the relative error of rounding states to what is kept; 0 if they are kept as computed."""
    if not kept:
        return 0.0
    blocks = softmax_blocks(q.astype(np.float64), k.astype(np.float64), rows, cols, mask, score, sinks)
    lse = max((float(np.abs(b.lse[np.isfinite(b.lse)]).max(initial=0.0)) for b in blocks), default=0.0)
    return KEPT_FACTOR * kept * (1 + lse)


def largest_score(
    q: Array, k: Array, rows: Positions, cols: Positions, mask: Mask, score: Score, sinks: Array | None = None
) -> float:
    """Return max|s| over the visible pairs and the sinks, 0 if there are none."""
    q, k = q.astype(np.float64), k.astype(np.float64)
    largest = 0.0 if sinks is None else float(np.abs(sinks).max(initial=0.0))
    for _, _, _, logits, _ in score_blocks(q, k, rows, cols, mask, score):
        visible = np.abs(logits[np.isfinite(logits)])
        largest = max(largest, float(visible.max(initial=0.0)))
    return largest


def error(actual: Array, expected: Array) -> Array:
    """Return |actual - expected|: 0 where both are the same infinity or both NaN, inf where only one is."""
    if actual.shape != expected.shape:
        raise ValueError(f"shapes must agree, got {actual.shape} and expected {expected.shape}")
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        distance = np.abs(actual - expected)
    return np.where(same, 0, np.where(np.isnan(distance), np.inf, distance))


def worst_ratio(error: Array, bound: Array | float) -> float:
    """Return the greatest error / bound: at most 1 is exact; an error where none is allowed gives inf."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error == 0, 0, error / bound)
    return float(np.where(np.isnan(ratio), np.inf, ratio).max(initial=0.0))
