"""Torch's flash kernels on arrays of ours, through DLPack: an extra for half types on GPUs, and a peer on the CPU.

Torch is no dependency, and the operators are not public: their names and results are those of torch 2.5 to 2.14. They
know blocks that are full or causal from corner to corner. Runs of positions are cut so that no other is left: keys
before a run of queries are full, those beside them a square, those after them nothing. Other masks and scores are
refused. Gradients are those of the kernels of ours, which take the whole row's lse.

Dao. "FlashAttention-2." 2023. arXiv:2307.08691.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from algorithms.ir.mask import CAUSAL, FULL, Mask
from algorithms.ir.score import Score
from algorithms.ops.merge import meaning as merge
from executor.errors import BadInput
from executor.kernels import Positions
from executor.kernels.shapes import measure

ON_DEVICE = True  # NumPy's arrays stay on the CPU
HALF_WEIGHTS = True

Array = Any
INSTALL = "--kernel torch needs torch, which ringloom does not install: see its own instructions for this machine"


class Piece(NamedTuple):
    """Queries and keys, as slices of both, that see each other fully, or causally from corner to corner."""

    rows: slice
    keys: slice
    causal: bool


def attend(
    q: Array, k: Array, v: Array, rows: Positions, cols: Positions, mask: Mask, score: Score
) -> tuple[Array, Array]:
    """Attend the queries at `rows` to the keys at `cols`; see `executor.kernels`.

    Raises:
        BadInput: torch is missing, or its kernels do not know the mask, the layout, the score or the dtype.
    """
    torch, sizes = _torch(), measure(q, k, v, rows, cols)
    if mask not in (FULL, CAUSAL) or not score.plain:
        raise BadInput(f"kernel torch knows full and causal masks of plain scores, got {mask}, {score}: use cuda")
    xp, group = _library(q), sizes.group
    kinds = {x.dtype.name for x in (q, k, v)}
    if sizes.head_dim != sizes.head_dim_v or (xp is not np and (sizes.head_dim > 256 or sizes.head_dim % 8)):
        widths = f"{sizes.head_dim} and {sizes.head_dim_v}"
        raise BadInput(f"kernel torch needs heads of one width, on GPUs 8, 16, ..., 256, got {widths}: use cuda")
    if len(kinds) > 1 or (xp is not np and kinds & {"float32", "float64"}):
        raise BadInput(f"kernel torch attends on GPUs in one half type, got {', '.join(sorted(kinds))}: use cuda")
    out = xp.zeros((sizes.queries, sizes.heads, sizes.head_dim_v), dtype=sizes.dtype)
    lse = xp.full((sizes.queries, sizes.heads), -xp.inf, dtype=sizes.dtype)
    for piece in pieces(rows, cols, mask):
        times = group if xp is np else 1  # on GPUs the operator itself shares KV heads
        keys, values = (x[piece.keys].repeat(times, axis=1) if times > 1 else x[piece.keys] for x in (k, v))
        more = _flash(torch, xp, q[piece.rows], keys, values, piece.causal, score.scale)
        out[piece.rows], lse[piece.rows] = merge(xp, out[piece.rows], lse[piece.rows], *more)
    return out, lse


def attend_backward(q: Array, *others: Any) -> tuple[Array, Array, Array]:
    """Return this block's share of dq, dk and dv, by our own kernel where the arrays are; see `executor.kernels`."""
    if isinstance(q, np.ndarray):
        from executor.kernels import fused_numba

        return fused_numba.attend_backward(q, *others)
    from executor.kernels import cuda_tiles

    return cuda_tiles.attend_backward(q, *others)


def pieces(rows: Positions, cols: Positions, mask: Mask) -> Iterator[Piece]:
    """Cut a block into pieces that are full or square and causal; every visible pair is in one of them.

    Raises:
        BadInput: under a causal mask, positions that are no long runs, as striped ones are.
    """
    if not mask.causal:
        if rows.size and cols.size:
            yield Piece(slice(0, rows.size), slice(0, cols.size), False)
        return
    for queries in runs(rows):
        for keys in runs(cols):
            yield from _causal(rows, cols, queries, keys)


def _causal(rows: Positions, cols: Positions, queries: slice, keys: slice) -> Iterator[Piece]:
    """Pieces of a run of queries and a run of keys."""
    first, end = int(rows[queries.start]), int(rows[queries.stop - 1]) + 1
    key, key_end = int(cols[keys.start]), int(cols[keys.stop - 1]) + 1
    at, at_key = queries.start - first, keys.start - key
    before = min(key_end, first)
    if before > key:
        yield Piece(queries, slice(keys.start, before + at_key), False)
    low, high = max(key, first), min(key_end, end)
    if low < high:
        yield Piece(slice(low + at, high + at), slice(low + at_key, high + at_key), True)
        if high < end:
            yield Piece(slice(high + at, queries.stop), slice(low + at_key, high + at_key), False)


def runs(positions: Positions) -> list[slice]:
    """Where positions count up by one.

    Raises:
        BadInput: in too many short runs.
    """
    breaks = [0, *(np.flatnonzero(np.diff(positions) != 1) + 1).tolist(), positions.size]
    found = [slice(a, b) for a, b in pairwise(breaks) if b > a]
    if len(found) > 8:
        raise BadInput(f"kernel torch needs tokens in long runs, got {len(found)} of {positions.size}: use cuda")
    return found


def _flash(torch: Any, xp: Any, q: Array, k: Array, v: Array, causal: bool, scale: float) -> tuple[Array, Array]:
    """One piece by torch: (n, H, D) each -> out (n, H, D), lse (n, H), in float32 at least."""
    with contextlib.nullcontext() if xp is np else _in_stream(torch, xp):
        arrays = [_to_torch(torch, x).movedim(1, 0)[None] for x in (q, k, v)]
        if xp is np:
            found = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*arrays, 0.0, causal, scale=scale)
        else:
            found = torch.ops.aten._scaled_dot_product_flash_attention(*arrays, 0.0, causal, scale=scale)
        wide = torch.float64 if arrays[0].dtype == torch.float64 else torch.float32
        out, lse = (x[0].movedim(0, 1).to(wide).contiguous() for x in found[:2])
        return _from_torch(xp, out), _from_torch(xp, lse)


def _in_stream(torch: Any, cupy: Any) -> Any:
    """Let torch start its work in CuPy's stream, so that nothing needs to wait for the other."""
    return torch.cuda.stream(torch.cuda.ExternalStream(cupy.cuda.get_current_stream().ptr))


def _to_torch(torch: Any, x: Array) -> Any:
    """Share memory; DLPack of NumPy has no bfloat16, which goes as 16-bit numbers."""
    if isinstance(x, np.ndarray):
        x = np.ascontiguousarray(x)
        if x.dtype.name == "bfloat16":
            return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(x)
    if x.dtype.name == "bfloat16":
        return torch.from_dlpack(x.view("int16")).view(torch.bfloat16)
    return torch.from_dlpack(x)


def _from_torch(xp: Any, x: Any) -> Array:
    return x.numpy() if xp is np else xp.from_dlpack(x)


def _library(x: Array) -> Any:
    if isinstance(x, np.ndarray):
        return np
    from executor.gpu.visible import require

    return require()


@lru_cache(maxsize=1)
def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise BadInput(INSTALL) from None
    return torch
