"""The kernel that needs NumPy alone: the softmax of a tile is a handful of whole-tile passes."""

import numpy as np

from algorithms.ir.mask import Mask
from algorithms.ir.score import Score
from executor.kernels import Array, Positions
from executor.kernels.backward import RowBlock, tiled_backward
from executor.kernels.forward import Running, tiled_attend
from executor.kernels.sight import Sight


def attend(
    q: Array, k: Array, v: Array, rows: Positions, cols: Positions, mask: Mask, score: Score
) -> tuple[Array, Array]:
    """Attend the queries at `rows` to the keys at `cols`; see `executor.kernels`."""
    return tiled_attend(q, k, v, rows, cols, mask, score, softmax)


def attend_backward(
    q: Array,
    k: Array,
    v: Array,
    do: Array,
    lse: Array,
    delta: Array,
    rows: Positions,
    cols: Positions,
    mask: Mask,
    score: Score,
) -> tuple[Array, Array, Array]:
    """Return this block's share of dq, dk and dv; see `executor.kernels`."""
    return tiled_backward(q, k, v, do, lse, delta, rows, cols, mask, score, gradient)


def softmax(scores: Array, running: Running, sight: Sight, cols: Positions, mixed: bool) -> None:
    """Turn a tile of scores into exp(score - top) and carry the running maximum and sum on."""
    if mixed:
        hide(scores, sight, cols)
    top = np.maximum(running.top, scores.max(axis=1))
    shift = np.where(np.isneginf(top), 0, top)  # a row that saw nothing yet: exp(-inf - 0) = 0
    scores -= shift[:, None]
    np.exp(scores, out=scores)
    np.exp(running.top - shift, out=running.factor)
    running.total[...] = running.total * running.factor + scores.sum(axis=1)
    running.top[...] = top


def gradient(scores: Array, weights: Array, part: RowBlock, cols: Positions, mixed: bool) -> None:
    """Turn scores into P = exp(s - lse) and weights dO V^T into dS = P (dO V^T - delta)."""
    if mixed:
        hide(scores, part.sight, cols)
    scores -= part.lse[:, None]
    np.exp(scores, out=scores)
    weights -= part.delta[:, None]
    weights *= scores


def hide(scores: Array, sight: Sight, cols: Positions) -> None:
    """Set the scores of pairs that the mask hides to -inf."""
    np.copyto(scores, -np.inf, where=(cols[None, :] > sight.last[:, None]) | (cols[None, :] < sight.first[:, None]))
