"""Gradients of tiled attention from the lse of the whole row: five GEMMs a tile, and a backend's pass.

    P = exp(s - lse), dV = P^T dO, dS = P (dO V^T - delta), dQ = scale dS K, dK = dS^T (scale Q)

and dS (1 - tanh^2) in place of dS where scores are capped.

FlashAttention-2 (Dao. 2023. arXiv:2307.08691), Algorithm 2.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from algorithms.ir.mask import Mask
from algorithms.ir.score import Score
from executor.kernels import Array, Positions
from executor.kernels.forward import KeyTile, interval_of, key_tiles, scaled_queries, spans
from executor.kernels.shapes import Scratch, Sizes, fold, measure, unfold
from executor.kernels.sight import Sight, sight_of, slope_of_cap, to_logits
from executor.kernels.tiles import Rows


class RowBlock(NamedTuple):
    """What the backward of one tile of rows reads: heads of one group folded into rows, queries scaled."""

    queries: Array
    do: Array
    lse: Array
    """A row that saw nothing has +inf here, so that its P is 0."""
    delta: Array
    sight: Sight


# gradient(scores, weights, rows, cols, mixed): scores s become P; weights dO V^T become dS.
GradientPass = Callable[[Array, Array, RowBlock, Positions, bool], None]


def tiled_backward(
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
    gradient: GradientPass,
) -> tuple[Array, Array, Array]:
    """Return this block's share of dq, dk and dv; see `executor.kernels` for the contract."""
    sizes = measure(q, k, v, rows, cols)
    interval = interval_of(mask, rows)
    row_spans, key_spans = spans(interval, cols, mask, sizes.group)
    k, v = k.astype(sizes.dtype, copy=False), v.astype(sizes.dtype, copy=False)
    dq, dk, dv = (np.zeros(x.shape, sizes.dtype) for x in (q, k, v))
    scratch = Scratch(sizes.dtype)
    for head in range(sizes.kv_heads):
        for span in row_spans:
            queries = scaled_queries(q, span, head, score.scale, sizes)
            sight = sight_of(interval, rows, span, head, score, sizes)
            block = row_block(queries, do, lse, delta, sight, span, head, sizes)
            tiles = key_tiles(k[:, head], v[:, head], cols, span, key_spans)
            row_dq = backward_rows(block, tiles, score.softcap, dk[:, head], dv[:, head], gradient, scratch)
            row_dq *= sizes.dtype.type(score.scale)
            unfold(dq, row_dq, span.slice, head, sizes)
    return dq, dk, dv


def row_block(
    queries: Array,
    do: Array,
    lse: Array,
    delta: Array,
    sight: Sight,
    span: Rows,
    head: int,
    sizes: Sizes,
) -> RowBlock:
    """Fold one tile of rows of one kv head."""
    row_do, row_lse, row_delta = (fold(x, span.slice, head, sizes) for x in (do, lse, delta))
    row_lse[np.isneginf(row_lse)] = np.inf
    return RowBlock(queries, row_do, row_lse, row_delta, sight)


def backward_rows(
    rows: RowBlock,
    tiles: Iterable[KeyTile],
    softcap: float,
    dk: Array,
    dv: Array,
    gradient: GradientPass,
    scratch: Scratch,
) -> Array:
    """Add the gradients of one tile of rows into `dk` (m, D) and `dv` (m, Dv); return dq / scale (r, D)."""
    count = len(rows.queries)
    dq = np.zeros_like(rows.queries)
    for tile in tiles:
        width = len(tile.k)
        scores = np.matmul(rows.queries, tile.k.T, out=scratch.take("scores", count, width))
        weights = np.matmul(rows.do, tile.v.T, out=scratch.take("weights", count, width))
        slope = slope_of_cap(scores, softcap, scratch.take("slope", count, width)) if softcap else None
        if softcap or rows.sight.slopes is not None:
            to_logits(scores, rows.sight, tile.cols, softcap)
        gradient(scores, weights, rows, tile.cols, tile.mixed)
        if slope is not None:
            weights *= slope
        dv[tile.where] += np.matmul(scores.T, rows.do, out=scratch.take("dv", *tile.v.shape))
        dk[tile.where] += np.matmul(weights.T, rows.queries, out=scratch.take("dk", *tile.k.shape))
        dq += np.matmul(weights, tile.k, out=scratch.take("dq", *dq.shape))
    return dq
