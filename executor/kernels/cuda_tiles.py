"""The kernel of GPUs: GEMMs by cuBLAS on tiles of scores that stay in the cache, and one fused pass between them.

FlashAttention-2 (Dao. 2023. arXiv:2307.08691), Algorithms 1 and 2, with the two products of a tile as library calls:
no library kernel attends in float64, and this one needs nothing but CuPy.

Half types enter the GEMMs as they are and are accumulated in float32. Their weights are handed to the second GEMM as
the sum of PIECES numbers of the half type: three carry all digits of float32, so that the result is that of float32,
as the contract has it; one is what flash kernels do, and three times faster in that product.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from algorithms.ir.mask import Mask
from algorithms.ir.score import Score
from executor.gpu import engine as engines
from executor.gpu.engine import NOWHERE, Engine, address
from executor.gpu.gemm import Matrices, matrices, multiply
from executor.gpu.plan import Plan, planned
from executor.gpu.sources import COMPUTED, HALVES, block
from executor.kernels import Positions
from executor.kernels.shapes import Sizes, measure

ON_DEVICE = True  # arrays are those of the engine's library, and so are results; positions are NumPy's
PIECES = 3

Array = Any


def engine() -> Engine:
    """The GPU that arrays are on."""
    return engines.current()


def attend(
    q: Array, k: Array, v: Array, rows: Positions, cols: Positions, mask: Mask, score: Score
) -> tuple[Array, Array]:
    """Attend the queries at `rows` to the keys at `cols`; see `executor.kernels`."""
    gpu, sizes = engine(), measure(q, k, v, rows, cols)
    xp, plan = gpu.xp, planned(gpu, rows, cols, mask, score, sizes)
    entering, weights = _types(q, k, v, sizes)
    work = Work(gpu, plan, sizes, score, weights.pieces)
    queries, keys, values = (folded(xp, q, sizes, entering), by_head(xp, k, entering), by_head(xp, v, entering))
    a, b, c = (matrices(gpu, x) for x in (queries, keys, values))
    top = xp.full((sizes.kv_heads, work.between), -xp.inf, dtype=sizes.dtype)
    total = xp.zeros(top.shape, dtype=sizes.dtype)
    sums = xp.zeros((*top.shape, sizes.head_dim_v), dtype=sizes.dtype)
    running = matrices(gpu, sums)
    for tile in work.tiles():
        scores = work.buffer("scores", tile, sizes.dtype.name)
        multiply(gpu, a.part(tile.heads, tile.rows), b.part(tile.heads, tile.keys).transposed, scores, score.scale)
        pieces = [scores] if weights.dtype == sizes.dtype.name else work.pieces(tile, weights)
        _softmax(work, tile, scores, pieces, top, total, sums)
        for piece in pieces:
            multiply(gpu, piece, c.part(tile.heads, tile.keys), running.part(tile.heads, tile.rows), add=True)
    return _finished(work, top, total, sums)


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
    """Return this block's share of dq, dk and dv, half types computed in float32; see `executor.kernels`."""
    gpu, sizes = engine(), measure(q, k, v, rows, cols)
    xp, kind, plan = gpu.xp, sizes.dtype.name, planned(gpu, rows, cols, mask, score, sizes)
    work = Work(gpu, plan, sizes, score, 1)
    arrays = [folded(xp, x, sizes, kind) for x in (q, do)] + [by_head(xp, x, kind) for x in (k, v)]
    a, grown, b, c = (matrices(gpu, x) for x in arrays)
    whole, own = (folded(xp, x[..., None], sizes, kind) for x in (lse, delta))
    shares = [xp.zeros(x.shape, dtype=sizes.dtype) for x in (arrays[0], k, v)]
    dq, dk, dv = (matrices(gpu, x) for x in (shares[0], *(by_head(xp, x, kind) for x in shares[1:])))
    for tile in work.tiles():
        scores, weights = (work.buffer(name, tile, kind) for name in ("scores", "weights"))
        queries, d_out = (x.part(tile.heads, tile.rows) for x in (a, grown))
        keys, values = (x.part(tile.heads, tile.keys) for x in (b, c))
        multiply(gpu, queries, keys.transposed, scores, score.scale)
        multiply(gpu, d_out, values.transposed, weights)
        _gradient(work, tile, scores, weights, whole, own)
        multiply(gpu, scores.transposed, d_out, dv.part(tile.heads, tile.keys), add=True)
        multiply(gpu, weights.transposed, queries, dk.part(tile.heads, tile.keys), score.scale, add=True)
        multiply(gpu, weights, keys, dq.part(tile.heads, tile.rows), score.scale, add=True)
    return unfolded(shares[0], sizes), shares[1], shares[2]


class Tile(NamedTuple):
    """Some KV heads, some folded rows and some keys, and whether the mask cuts through."""

    heads: slice
    rows: slice
    keys: slice
    mixed: bool
    token: int
    """The first row's token."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of its scores."""
        heads, rows, keys = (x.stop - x.start for x in (self.heads, self.rows, self.keys))
        return heads, rows, keys


class Weights(NamedTuple):
    """In what dtype weights enter the second GEMM, and as the sum of how many numbers."""

    dtype: str
    pieces: int


def _types(q: Array, k: Array, v: Array, sizes: Sizes) -> tuple[str, Weights]:
    """The dtype in which arrays enter GEMMs, and that of weights: a half type's own if all have it."""
    names = {x.dtype.name for x in (q, k, v)}
    if len(names) == 1 and (name := names.pop()) in HALVES:
        return name, Weights(name, PIECES)
    return sizes.dtype.name, Weights(sizes.dtype.name, 1)


class Work:
    """One block of attention on its way through a GPU, and the memory that its tiles use one after the other."""

    def __init__(self, gpu: Engine, plan: Plan, sizes: Sizes, score: Score, pieces: int) -> None:
        """Start with no buffers."""
        self.gpu, self.plan, self.sizes, self.score, self.count = gpu, plan, sizes, score, pieces
        self.between = sizes.queries * sizes.group
        self._held: dict[str, Array] = {}
        self._slopes = None if plan.slopes is None else address(gpu, plan.slopes)

    def tiles(self) -> Iterator[Tile]:
        """All tiles that any query sees, rows by rows."""
        group = self.sizes.group
        for head in range(0, self.sizes.kv_heads, self.plan.heads):
            heads = slice(head, min(head + self.plan.heads, self.sizes.kv_heads))
            for span in self.plan.rows:
                first, end = span.slice.start, span.slice.stop
                for keys, mixed in self.plan.tiles(span):
                    yield Tile(heads, slice(first * group, end * group), keys, mixed, first)

    def buffer(self, name: str, tile: Tile, dtype: str, times: int = 1) -> Matrices:
        """Memory for a tile of scores, of unspecified content."""
        heads, rows, width = tile.shape
        size = heads * rows * width * times
        if name not in self._held or self._held[name].size < size:
            self._held[name] = self.gpu.xp.empty(size, dtype=np.dtype(_carried(dtype)))
        return Matrices(self.gpu.pointer(self._held[name]), dtype, tile.shape, (rows * width, width, 1))

    def pieces(self, tile: Tile, weights: Weights) -> list[Matrices]:
        """Memory for weights as the sum of several numbers."""
        one = self.buffer("pieces", tile, weights.dtype, weights.pieces)
        size = int(np.prod(tile.shape)) * 2
        return [one._replace(pointer=one.pointer + piece * size) for piece in range(weights.pieces)]

    def sight(self, tile: Tile) -> list[Any]:
        """What a kernel is told of positions: what rows see, where they are, where keys are, whether to compare."""
        at, word = self.gpu.pointer, 8
        rows = [np.uint64(at(x) + tile.token * word) for x in (self.plan.first, self.plan.last, self.plan.at)]
        return [*rows, np.uint64(at(self.plan.cols) + tile.keys.start * word), np.int32(tile.mixed)]

    def scoring(self, tile: Tile) -> list[Any]:
        """What a kernel is told of logits: slopes, cap, and how many heads share a token's rows."""
        kind, group = self.sizes.dtype, self.sizes.group
        skipped = np.uint64(tile.heads.start * group * kind.itemsize)
        slopes = NOWHERE if self._slopes is None else self._slopes + skipped
        return [slopes, kind.type(self.score.softcap), np.int32(group)]

    def state(self, array: Array, tile: Tile, width: int = 1) -> Any:
        """Where a tile's first row is in an array (kv heads, rows, width)."""
        start = (tile.heads.start * self.between + tile.rows.start) * width * self.sizes.dtype.itemsize
        return np.uint64(self.gpu.pointer(array) + start)


def _softmax(
    work: Work, tile: Tile, scores: Matrices, pieces: list[Matrices], top: Array, total: Array, sums: Array
) -> None:
    heads, rows, width = tile.shape
    kernel = f"softmax_tile<{COMPUTED[scores.dtype]}, {(COMPUTED | HALVES)[pieces[0].dtype]}>"
    arguments = [
        np.uint64(scores.pointer), np.uint64(pieces[0].pointer), np.int32(len(pieces)), np.int32(width),
        *work.sight(tile), *work.scoring(tile),
        work.state(top, tile), work.state(total, tile), work.state(sums, tile, work.sizes.head_dim_v),
        np.int64(work.between), np.int32(work.sizes.head_dim_v),
    ]  # fmt: skip
    work.gpu.launch(kernel, (rows, heads), block(width), arguments)


def _gradient(work: Work, tile: Tile, scores: Matrices, weights: Matrices, lse: Array, delta: Array) -> None:
    heads, rows, width = tile.shape
    arguments = [
        np.uint64(scores.pointer), np.uint64(weights.pointer), np.int32(width),
        *work.sight(tile), *work.scoring(tile),
        work.state(lse, tile), work.state(delta, tile), np.int64(work.between),
    ]  # fmt: skip
    work.gpu.launch(f"gradient_tile<{COMPUTED[scores.dtype]}>", (rows, heads), block(width), arguments)


def _finished(work: Work, top: Array, total: Array, sums: Array) -> tuple[Array, Array]:
    sizes, gpu = work.sizes, work.gpu
    out = gpu.xp.empty((sizes.queries, sizes.heads, sizes.head_dim_v), dtype=sizes.dtype)
    lse = gpu.xp.empty((sizes.queries, sizes.heads), dtype=sizes.dtype)
    if lse.size:
        arguments = [*(address(gpu, x) for x in (sums, top, total, out, lse))]
        arguments += [np.int32(sizes.group), np.int32(sizes.head_dim_v)]
        kernel = f"finish_rows<{COMPUTED[sizes.dtype.name]}>"
        gpu.launch(kernel, (work.between, sizes.kv_heads), block(sizes.head_dim_v), arguments)
    return out, lse


def folded(xp: Any, x: Array, sizes: Sizes, dtype: str) -> Array:
    """Lay the query heads of a KV head side by side as rows: (n, Hq, D) -> (Hkv, n * group, D)."""
    parts = x.reshape(sizes.queries, sizes.kv_heads, sizes.group, x.shape[-1]).transpose(1, 0, 2, 3)
    rows = xp.ascontiguousarray(parts.astype(_named(dtype), copy=False))
    return rows.reshape(sizes.kv_heads, sizes.queries * sizes.group, x.shape[-1])


def unfolded(x: Array, sizes: Sizes) -> Array:
    """The inverse of `folded`."""
    parts = x.reshape(sizes.kv_heads, sizes.queries, sizes.group, x.shape[-1]).transpose(1, 0, 2, 3)
    return parts.reshape(sizes.queries, sizes.heads, x.shape[-1])


def by_head(xp: Any, x: Array, dtype: str) -> Array:
    """Show keys (m, Hkv, D) as matrices (Hkv, m, D) where they lie; copied only to convert or to close gaps in rows."""
    x = x.astype(_named(dtype), copy=False)
    if x.shape[-1] > 1 and x.strides[-1] != x.dtype.itemsize:
        x = xp.ascontiguousarray(x)
    return x.transpose(1, 0, 2)


def _named(dtype: str) -> Any:
    """A dtype by name; NumPy and CuPy have bfloat16 from ml_dtypes, which is there where such arrays are."""
    if dtype == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype)


def _carried(dtype: str) -> str:
    """Memory for a half type is taken as 16-bit numbers."""
    return "uint16" if dtype in HALVES else dtype
