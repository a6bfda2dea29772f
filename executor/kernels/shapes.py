"""Shapes and dtypes of the tiled kernels: the heads of one group are folded into the rows of one GEMM."""

from typing import NamedTuple

import numpy as np

from executor.kernels import Array, Positions

COMPUTED_IN: dict[str, np.dtype[np.floating]] = {
    "float16": np.dtype(np.float32),
    "bfloat16": np.dtype(np.float32),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}


class Sizes(NamedTuple):
    """What a block of attention measures; `group` is the number of query heads that share a kv head."""

    queries: int
    keys: int
    heads: int
    kv_heads: int
    group: int
    head_dim: int
    head_dim_v: int
    dtype: np.dtype[np.floating]


def measure(q: Array, k: Array, v: Array, rows: Positions, cols: Positions) -> Sizes:
    """Read the sizes off the arrays.

    Raises:
        ValueError: the shapes contradict each other.
        TypeError: a dtype is not a floating-point type that kernels compute.
    """
    n, heads, head_dim = q.shape
    m, kv_heads, head_dim_v = v.shape
    if k.shape != (m, kv_heads, head_dim):
        want = (m, kv_heads, head_dim)
        raise ValueError(f"k must be {want} for q {q.shape} and v {v.shape}, got {k.shape}")
    if rows.shape != (n,) or cols.shape != (m,):
        raise ValueError(f"positions must be ({n},) and ({m},), got rows {rows.shape} and cols {cols.shape}")
    if heads % kv_heads:
        raise ValueError(f"kv heads must divide query heads, got {heads} query heads and {kv_heads} kv heads")
    dtype = np.result_type(*map(computing_dtype, (q, k, v)))
    return Sizes(n, m, heads, kv_heads, heads // kv_heads, head_dim, head_dim_v, dtype)


def computing_dtype(array: Array) -> np.dtype[np.floating]:
    """Return the dtype in which kernels compute on `array`: float32 for half types, else its own.

    Raises:
        TypeError: not one of float16, bfloat16, float32, float64.
    """
    if array.dtype.name not in COMPUTED_IN:
        raise TypeError(f"kernels compute {', '.join(COMPUTED_IN)}, got an array of {array.dtype.name}")
    return COMPUTED_IN[array.dtype.name]


def fold(array: Array, span: slice, head: int, sizes: Sizes) -> Array:
    """Copy the query heads of one kv head into rows: (n, Hq, D) -> (t * group, D), (n, Hq) -> (t * group,)."""
    first = head * sizes.group
    part = array[span, first : first + sizes.group]
    rows = part.shape[0] * sizes.group
    return part.astype(sizes.dtype, copy=True).reshape(rows, *part.shape[2:])


def unfold(array: Array, rows: Array, span: slice, head: int, sizes: Sizes) -> None:
    """Write folded `rows` back into their place in `array`; the inverse of `fold`."""
    first = head * sizes.group
    part = array[span, first : first + sizes.group]
    part[...] = rows.reshape(part.shape)


class Scratch:
    """Buffers for one score tile, reused so that no tile touches fresh memory."""

    def __init__(self, dtype: np.dtype[np.floating]) -> None:
        """Start with no buffers; they grow to the greatest tile asked for."""
        self.dtype = dtype
        self.buffers: dict[str, Array] = {}

    def take(self, name: str, rows: int, columns: int) -> Array:
        """Return the buffer `name` as a contiguous (rows, columns) array of unspecified content."""
        buffer = self.buffers.get(name)
        if buffer is None or buffer.size < rows * columns:
            buffer = self.buffers[name] = np.empty(rows * columns, self.dtype)
        return buffer[: rows * columns].reshape(rows, columns)
