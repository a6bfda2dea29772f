"""Dense attention, the reference: whole rows, no running softmax, the mask written out pair by pair.

It shares no line with the tiled kernels. Arrays and positions are as in `executor.kernels`; the computation is
in `dtype`, float64 or np.longdouble (64 bits of mantissa on x86, no BLAS: small cases).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from executor.kernels import Array, Positions

ROW_BLOCK = 256


class Weights(NamedTuple):
    """Softmax of one block of rows of one query head."""

    span: slice
    """The rows, of the token dimension."""
    head: int
    kv_head: int
    weights: Array
    """(rows, m): 0 where hidden, and in a row that sees nothing."""
    lse: Array
    """(rows,)."""


def dense(
    q: Array,
    k: Array,
    v: Array,
    rows: Positions,
    cols: Positions,
    mask: str,
    scale: float,
    dtype: Any = np.float64,
) -> tuple[Array, Array]:
    """Return out (n, Hq, Dv) and lse (n, Hq)."""
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    out = np.empty((*q.shape[:2], v.shape[2]), dtype)
    lse = np.empty(q.shape[:2], dtype)
    for part in softmax_blocks(q, k, rows, cols, mask, scale):
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
    mask: str,
    scale: float,
    dtype: Any = np.float64,
) -> tuple[Array, Array, Array]:
    """Return dq, dk and dv of sum(do * out)."""
    q, k, v, do = (x.astype(dtype) for x in (q, k, v, do))
    parts = softmax_blocks(q, k, rows, cols, mask, scale)
    return contract(parts, q, k, v, do, scale, minus=-1)


def contract(
    parts: Iterator[Weights], q: Array, k: Array, v: Array, do: Array, scale: float, minus: int
) -> tuple[Array, Array, Array]:
    """Contract softmax weights into dq, dk, dv.

    With absolute values for q, k, v, do and `minus` = +1, the same contraction bounds what rounding can do.
    """
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for span, head, kv_head, weights, _ in parts:
        do_rows, values = do[span, head], v[:, kv_head]
        delta = (do_rows * (weights @ values)).sum(axis=1)
        dscores = weights * (do_rows @ values.T + minus * delta[:, None]) * scale
        dq[span, head] = dscores @ k[:, kv_head]
        dk[:, kv_head] += dscores.T @ q[span, head]
        dv[:, kv_head] += weights.T @ do_rows
    return dq, dk, dv


def softmax_blocks(q: Array, k: Array, rows: Positions, cols: Positions, mask: str, scale: float) -> Iterator[Weights]:
    """Yield the softmax weights of every head, a block of rows at a time, in the dtype of q and k."""
    for span, head, kv_head, scores in score_blocks(q, k, rows, cols, mask, scale):
        top = scores.max(axis=1, initial=-np.inf)
        shift = np.where(np.isneginf(top), 0, top).astype(scores.dtype)
        weights = np.exp(scores - shift[:, None])
        total = weights.sum(axis=1)
        seen = np.where(total == 0, 1, total)
        lse = np.where(total == 0, -np.inf, shift + np.log(seen))
        yield Weights(span, head, kv_head, weights / seen[:, None], lse)


def score_blocks(
    q: Array, k: Array, rows: Positions, cols: Positions, mask: str, scale: float
) -> Iterator[tuple[slice, int, int, Array]]:
    """Yield rows, head, kv head and scores (r, m), -inf where hidden, a block of rows at a time."""
    heads, group = q.shape[1], q.shape[1] // k.shape[1]
    for head in range(heads):
        for start in range(0, len(rows), ROW_BLOCK):
            span = slice(start, min(start + ROW_BLOCK, len(rows)))
            scores = (q[span, head] @ k[:, head // group].T) * scale
            scores[~sees(rows[span], cols, mask)] = -np.inf
            yield span, head, head // group, scores


def sees(rows: Positions, cols: Positions, mask: str) -> NDArray[np.bool_]:
    """Return which query (row) may see which key (column)."""
    if mask == "full":
        return np.ones((len(rows), len(cols)), bool)
    if mask == "causal":
        return cols[None, :] <= rows[:, None]
    raise ValueError(f"no dense mask {mask!r}: expected one of causal, full")
