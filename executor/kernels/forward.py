"""Tiled attention with a running softmax: two GEMMs a tile, and a pass between them that a backend supplies.

FlashAttention-2 (Dao. 2023. arXiv:2307.08691), Algorithm 1, on the CPU.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from algorithms.ir.mask import FULL, Interval, Mask
from algorithms.ir.score import Score
from executor.kernels import Array, Positions
from executor.kernels.shapes import Scratch, Sizes, fold, measure, unfold
from executor.kernels.sight import Sight, sight_of, to_logits
from executor.kernels.tiles import Rows, Span, cut, cut_rows, visible

# BLAS repacks the keys for each tile of rows, so rows are many: past 512 the gain is flat.
FULL_SIDE = 512
# A tile on the diagonal is half wasted: smaller ones waste less.
MASKED_SIDE = 256
# Few rows (decode) take long tiles. Past 2048 the gain is under a tenth, and a float32 sum grows by rounding.
LONGEST = 2048


class Running(NamedTuple):
    """Softmax of each row over the keys met so far."""

    top: Array
    """The greatest score, (rows,)."""
    total: Array
    """The sum of exp(score - top), (rows,)."""
    factor: Array
    """What the last tile multiplied earlier sums by, (rows,)."""


class KeyTile(NamedTuple):
    """The keys and values of one tile, of one kv head."""

    k: Array
    v: Array
    cols: Positions
    where: slice
    mixed: bool
    """The mask cuts through this tile: positions must be compared."""


# softmax(scores, running, sight, cols, mixed): scores become exp(score - top), hidden ones 0; running is updated.
SoftmaxPass = Callable[[Array, Running, Sight, Positions, bool], None]


def tiled_attend(
    q: Array,
    k: Array,
    v: Array,
    rows: Positions,
    cols: Positions,
    mask: Mask,
    score: Score,
    softmax: SoftmaxPass,
) -> tuple[Array, Array]:
    """Attend the queries at `rows` to the keys at `cols`; see `executor.kernels` for the contract."""
    sizes = measure(q, k, v, rows, cols)
    interval = interval_of(mask, rows)
    row_spans, key_spans = spans(interval, cols, mask, sizes.group)
    k, v = k.astype(sizes.dtype, copy=False), v.astype(sizes.dtype, copy=False)
    out = np.empty((sizes.queries, sizes.heads, sizes.head_dim_v), sizes.dtype)
    lse = np.empty((sizes.queries, sizes.heads), sizes.dtype)
    scratch = Scratch(sizes.dtype)
    for head in range(sizes.kv_heads):
        for span in row_spans:
            queries = scaled_queries(q, span, head, score.scale, sizes)
            sight = sight_of(interval, rows, span, head, score, sizes)
            tiles = key_tiles(k[:, head], v[:, head], cols, span, key_spans)
            row_out = np.zeros((len(queries), sizes.head_dim_v), sizes.dtype)
            row_lse = attend_rows(queries, sight, tiles, score, row_out, softmax, scratch)
            unfold(out, row_out, span.slice, head, sizes)
            unfold(lse, row_lse, span.slice, head, sizes)
    return out, lse


def interval_of(mask: Mask, rows: Positions) -> Interval:
    """The first and the last key position that each query may see."""
    return mask.interval(rows)


def attend_rows(
    queries: Array,
    sight: Sight,
    tiles: Iterable[KeyTile],
    score: Score,
    out: Array,
    softmax: SoftmaxPass,
    scratch: Scratch,
) -> Array:
    """Attend scaled rows (r, D) of one kv head to its visible tiles: add to `out` (r, Dv), return lse (r,)."""
    count, dtype = len(queries), queries.dtype
    running = Running(np.full(count, -np.inf, dtype), np.zeros(count, dtype), np.empty(count, dtype))
    for tile in tiles:
        scores = np.matmul(queries, tile.k.T, out=scratch.take("scores", count, len(tile.k)))
        if not score.plain:
            to_logits(scores, sight, tile.cols, score.softcap)
        softmax(scores, running, sight, tile.cols, tile.mixed)
        out *= running.factor[:, None]
        out += np.matmul(scores, tile.v, out=scratch.take("out", *out.shape))
    seen = np.where(running.total == 0, 1, running.total)
    out /= seen[:, None]
    return running.top + np.log(seen)


def key_tiles(k: Array, v: Array, cols: Positions, queries: Rows, key_spans: list[Span]) -> Iterator[KeyTile]:
    """Yield the tiles of one kv head that some query of `queries` sees."""
    for span, mixed in visible(queries, key_spans):
        yield KeyTile(k[span.slice], v[span.slice], cols[span.slice], span.slice, mixed)


def spans(interval: Interval, cols: Positions, mask: Mask, group: int) -> tuple[list[Rows], list[Span]]:
    """Cut queries (by what they see) and keys into the sides of the tiles."""
    side = FULL_SIDE if mask == FULL else MASKED_SIDE
    rows = max(1, interval.last.size * group)
    width = side if rows >= side else max(side, min(LONGEST, side * side // rows))
    return cut_rows(interval, max(1, side // group)), cut(cols, width)


def scaled_queries(q: Array, span: Rows, head: int, scale: float, sizes: Sizes) -> Array:
    """Fold the queries of one kv head into rows and scale them, once for all the tiles they meet."""
    queries = fold(q, span.slice, head, sizes)
    queries *= sizes.dtype.type(scale)
    return queries
