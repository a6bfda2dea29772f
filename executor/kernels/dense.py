"""Dense attention, the reference: whole rows, no running softmax, the mask written out pair by pair.

It shares no line with the tiled kernels. Arrays and positions are as in `executor.kernels`; the computation is
in `dtype`, float64 or np.longdouble (64 bits of mantissa on x86, no BLAS: small cases). Sinks, one logit for each
query head, stand in the softmax of each of its rows.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from algorithms.ir.mask import Mask
from algorithms.ir.score import Score
from executor.kernels import Array, Positions

ROW_BLOCK = 256


class Weights(NamedTuple):
    """Softmax of one block of rows of one query head."""

    span: slice
    """The rows, of the token dimension."""
    head: int
    kv_head: int
    weights: Array
    """(rows, m): 0 where hidden, and in a row that sees nothing; they add up to 1 less the sink's."""
    lse: Array
    """(rows,)."""
    slope: Array
    """(rows, m): of the logits by the scaled products; less than 1 where they are capped."""
    sink: Array
    """(rows,): the sink's weight, 0 where there is none."""


def dense(
    q: Array,
    k: Array,
    v: Array,
    rows: Positions,
    cols: Positions,
    mask: Mask,
    score: Score,
    dtype: Any = np.float64,
    sinks: Array | None = None,
) -> tuple[Array, Array]:
    """Return out (n, Hq, Dv) and lse (n, Hq)."""
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    out = np.empty((*q.shape[:2], v.shape[2]), dtype)
    lse = np.empty(q.shape[:2], dtype)
    for part in softmax_blocks(q, k, rows, cols, mask, score, sinks):
        out[part.span, part.head] = part.weights @ v[:, part.kv_head]
        lse[part.span, part.head] = part.lse
    return out, lse


def dense_backward(
    q: Array,
    k: Array,
    v: Array,
    do: Array,
    rows: Positions,
    cols: Positions,
    mask: Mask,
    score: Score,
    dtype: Any = np.float64,
    sinks: Array | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Return dq, dk, dv and dsinks (Hq,) of sum(do * out)."""
    q, k, v, do = (x.astype(dtype) for x in (q, k, v, do))
    parts = softmax_blocks(q, k, rows, cols, mask, score, sinks)
    return contract(parts, q, k, v, do, score.scale, minus=-1)


def contract(
    parts: Iterator[Weights], q: Array, k: Array, v: Array, do: Array, scale: float, minus: int
) -> tuple[Array, Array, Array, Array]:
    """Contract softmax weights into dq, dk, dv and dsinks.

    With absolute values for q, k, v, do and `minus` = +1, the same contraction bounds what rounding can do.
    """
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    dsinks = np.zeros(q.shape[1], q.dtype)
    for span, head, kv_head, weights, _, slope, sink in parts:
        do_rows, values = do[span, head], v[:, kv_head]
        delta = (do_rows * (weights @ values)).sum(axis=1)
        dscores = weights * (do_rows @ values.T + minus * delta[:, None]) * slope * scale
        dq[span, head] = dscores @ k[:, kv_head]
        dk[:, kv_head] += dscores.T @ q[span, head]
        dv[:, kv_head] += weights.T @ do_rows
        dsinks[head] += minus * (sink * delta).sum()
    return dq, dk, dv, dsinks


def softmax_blocks(
    q: Array, k: Array, rows: Positions, cols: Positions, mask: Mask, score: Score, sinks: Array | None = None
) -> Iterator[Weights]:
    """Yield the softmax weights of every head, a block of rows at a time, in the dtype of q and k."""
    for span, head, kv_head, scores, slope in score_blocks(q, k, rows, cols, mask, score):
        sink = scores.dtype.type(-np.inf if sinks is None else sinks[head])
        top = scores.max(axis=1, initial=sink)
        shift = np.where(np.isneginf(top), 0, top).astype(scores.dtype)
        weights, beside = np.exp(scores - shift[:, None]), np.exp(sink - shift)
        total = weights.sum(axis=1) + beside
        seen = np.where(total == 0, 1, total)
        lse = np.where(total == 0, -np.inf, shift + np.log(seen))
        yield Weights(span, head, kv_head, weights / seen[:, None], lse, slope, beside / seen)


def score_blocks(
    q: Array, k: Array, rows: Positions, cols: Positions, mask: Mask, score: Score
) -> Iterator[tuple[slice, int, int, Array, Array]]:
    """Yield rows, head, kv head, logits (r, m), -inf where hidden, and their slopes, a block of rows at a time."""
    heads, group = q.shape[1], q.shape[1] // k.shape[1]
    for head in range(heads):
        for start in range(0, len(rows), ROW_BLOCK):
            span = slice(start, min(start + ROW_BLOCK, len(rows)))
            logits, slope = (q[span, head] @ k[:, head // group].T) * score.scale, np.ones((), q.dtype)
            if score.softcap > 0:
                inside = logits / score.softcap
                logits = np.tanh(inside) * score.softcap
                slope = 4 * np.exp(-2 * np.logaddexp(inside, -inside))  # 1 / cosh^2, which overflows
            if score.slopes is not None:
                logits = logits - score.slopes[head] * abs(np.subtract.outer(rows[span], cols))
            logits[~sees(rows[span], cols, mask)] = -np.inf
            yield span, head, head // group, logits, slope


def sees(rows: Positions, cols: Positions, mask: Mask) -> NDArray[np.bool_]:
    """Return which query (row) may see which key (column), each rule of the mask written out."""
    back = rows[:, None] - cols[None, :]
    visible = np.ones(back.shape, bool)
    if mask.causal:
        visible &= back >= 0
    if mask.window:
        visible &= back < mask.window
    if mask.documents:
        starts = np.concatenate([[0], np.cumsum(mask.documents)[:-1]])
        number = [(x[:, None] >= starts[None, :]).sum(axis=1) for x in (rows, cols)]
        visible &= number[0][:, None] == number[1][None, :]
    return visible
