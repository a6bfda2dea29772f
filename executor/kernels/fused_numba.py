"""The compiled kernel: mask, maximum, exp and sum of a tile's row in one pass while the row is in cache.

The GEMMs stay in NumPy's BLAS. Compiled once a machine: the machine code is kept beside this file, or in the home.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from algorithms.ir.mask import Mask
from algorithms.ir.score import Score
from executor.kernels import Array, Positions
from executor.kernels.backward import RowBlock, tiled_backward
from executor.kernels.forward import Running, tiled_attend
from executor.kernels.sight import Sight

# What the compiler may do beyond IEEE order. Never "nnan" where a NaN must survive.
ORDERED = {"contract", "nsz"}
ANY_ORDER = {"contract", "nsz", "reassoc"}
COMPARE = {"nnan", "nsz"}

LOG2_E = 1.4426950408889634
# 1 / k! for k = 13, 12, ..., 2: exp(r) to the last bit for |r| <= log(2) / 2.
TAYLOR = tuple(float(1 / np.prod(np.arange(1.0, k + 1))) for k in range(13, 1, -1))


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


def fused() -> Mapping[str, Callable[..., tuple[Any, ...]]]:
    """What stands in for the meaning of other ops, by kind."""
    from executor.kernels import fused_merge

    return fused_merge.fused()


def softmax(scores: Array, running: Running, sight: Sight, cols: Positions, mixed: bool) -> None:
    """Turn a tile of scores into exp(score - top) and carry the running maximum and sum on."""
    softmax_tile(scores, running.top, running.total, running.factor, sight.first, sight.last, cols, mixed)


def gradient(scores: Array, weights: Array, part: RowBlock, cols: Positions, mixed: bool) -> None:
    """Turn scores into P = exp(s - lse) and weights dO V^T into dS = P (dO V^T - delta)."""
    gradient_tile(scores, weights, part.lse, part.delta, part.sight.first, part.sight.last, cols, mixed)


def exp(x: Any) -> Any:
    """Return e**x; compiled code uses the vectorisable versions below, uncompiled code this one."""
    return np.exp(x)


@overload(exp, jit_options={"fastmath": ORDERED})
def _exp(x: Any) -> Any:
    """Choose by type."""
    return _exp64 if x.bitwidth == 64 else _exp32


# x = n log 2 + r. Adding `magic` rounds to the integer n and leaves n in the low bits of the sum, from where
# it becomes the exponent of 2**n. Comparisons are written so that a NaN passes through to the result.


def _exp64(x: Any) -> Any:
    """Return e**x in float64, relative error under 1 eps; 0 below -708, inf above 709.4."""
    magic = 6755399441055744.0
    w = -708.0 if x < -708.0 else x
    w = 709.5 if w > 709.5 else w
    shifted = w * LOG2_E + magic
    n = shifted - magic
    r = (w - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10
    p = TAYLOR[0]
    for k in range(1, 12):
        p = p * r + TAYLOR[k]
    p = (p * r + 1.0) * r + 1.0
    bits = (np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)
    power = np.int64(bits).view(np.float64)
    return 0.0 if x < -708.0 else p * power


def _exp32(x: Any) -> Any:
    """Return e**x in float32 (Cephes' polynomial), relative error under 1 eps; 0 below -87, inf above 88.4."""
    one, low, high = np.float32(1), np.float32(-87.0), np.float32(88.5)
    magic = np.float32(12582912.0)
    w = low if x < low else x
    w = high if w > high else w
    shifted = w * np.float32(LOG2_E) + magic
    n = shifted - magic
    r = (w - n * np.float32(0.693359375)) - n * np.float32(-2.12194440e-4)
    p = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = (p * r) * r + r + one
    bits = (np.float32(shifted).view(np.int32) + np.int32(127)) << np.int32(23)
    power = np.int32(bits).view(np.float32)
    return np.float32(0) if x < low else p * power


def compiled(fastmath: Any = False) -> Callable[[Any], Any]:
    """Return a decorator that compiles a function, and keeps its code where a folder can be written."""

    def decorate(function: Any) -> Any:
        try:
            return njit(cache=True, nogil=True, fastmath=fastmath)(function)
        except RuntimeError:  # neither this folder nor the home can be: every run compiles
            return njit(nogil=True, fastmath=fastmath)(function)

    return decorate


@compiled(COMPARE)
def greatest(row: Array) -> Any:
    """Return the greatest entry. A NaN may be missed here: exp(NaN - anything) brings it into the sum.

    Eight maxima side by side: one alone, which the compiler leaves as it is, waits for itself at every entry.
    """
    a = b = c = d = e = f = g = h = row[0]
    eights = row.size // 8 * 8
    for j in range(0, eights, 8):
        a, b, c, d = max(a, row[j]), max(b, row[j + 1]), max(c, row[j + 2]), max(d, row[j + 3])
        e, f, g, h = max(e, row[j + 4]), max(f, row[j + 5]), max(g, row[j + 6]), max(h, row[j + 7])
    for j in range(eights, row.size):
        a = max(a, row[j])
    return max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h)))


@compiled(ANY_ORDER)
def exp_and_sum(row: Array, shift: Any) -> Any:
    """Replace the row by exp(row - shift) and return its sum."""
    total = row.dtype.type(0)
    for j in range(row.size):
        row[j] = exp(row[j] - shift)
        total += row[j]
    return total


@compiled()
def hide(row: Array, first: int, last: int, cols: Positions) -> None:
    """Set the scores of keys before position `first` and after `last` to -inf."""
    for j in range(row.size):
        if (cols[j] > last) | (cols[j] < first):
            row[j] = -np.inf


@compiled(ORDERED)
def softmax_tile(
    scores: Array,
    top: Array,
    total: Array,
    factor: Array,
    first: Positions,
    last: Positions,
    cols: Positions,
    mixed: bool,
) -> None:
    """Do `softmax` row by row."""
    for i in range(scores.shape[0]):
        row = scores[i]
        if mixed:
            hide(row, first[i], last[i], cols)
        new = max(top[i], greatest(row))
        shift = new if new > -np.inf else row.dtype.type(0)
        here = exp_and_sum(row, shift)
        factor[i] = exp(top[i] - shift)
        total[i] = total[i] * factor[i] + here
        top[i] = new


@compiled(ORDERED)
def gradient_tile(
    scores: Array,
    weights: Array,
    lse: Array,
    delta: Array,
    first: Positions,
    last: Positions,
    cols: Positions,
    mixed: bool,
) -> None:
    """Do `gradient` row by row."""
    for i in range(scores.shape[0]):
        row, weight = scores[i], weights[i]
        if mixed:
            hide(row, first[i], last[i], cols)
        for j in range(row.size):
            row[j] = exp(row[j] - lse[i])
            weight[j] = row[j] * (weight[j] - delta[i])
