"""Batches of matrix products by cuBLAS, on parts of arrays as they lie in memory: nothing is transposed or copied."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from executor.gpu.engine import Engine

CUDA_R = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}  # cudaDataType
COMPUTE = {"float32": 68, "float64": 70}  # cublasComputeType_t: 32F and 64F; TF32 is another (77) and never asked for
AS_IT_LIES, TRANSPOSED = 0, 1  # cublasOperation_t
DEFAULT_ALGORITHM = -1
ITEMSIZE = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}


class Matrices(NamedTuple):
    """A batch of matrices somewhere in memory; steps are in elements, and one of a matrix's own two is 1."""

    pointer: int
    dtype: str
    shape: tuple[int, int, int]
    steps: tuple[int, int, int]

    def part(self, heads: slice, rows: slice) -> Matrices:
        """Some of the matrices, and some of their rows."""
        (count, height, width), (by_head, by_row, _) = self.shape, self.steps
        (h, h_end, _), (r, r_end, _) = heads.indices(count), rows.indices(height)
        start = self.pointer + (h * by_head + r * by_row) * ITEMSIZE[self.dtype]
        return Matrices(start, self.dtype, (h_end - h, r_end - r, width), self.steps)

    @property
    def transposed(self) -> Matrices:
        """Each matrix transposed, without moving anything."""
        (count, height, width), (by_head, by_row, by_column) = self.shape, self.steps
        return self._replace(shape=(count, width, height), steps=(by_head, by_column, by_row))


def matrices(engine: Engine, array: Any) -> Matrices:
    """An array (count, rows, columns) as matrices; its last step must be 1."""
    size = array.dtype.itemsize
    steps = tuple(step // size for step in array.strides)
    if array.size and array.shape[2] > 1 and steps[2] != 1:
        raise ValueError(f"rows of matrices must be contiguous, got steps {steps} of shape {array.shape}")
    return Matrices(engine.pointer(array), array.dtype.name, array.shape, (steps[0], steps[1], 1))


def multiply(engine: Engine, a: Matrices, b: Matrices, out: Matrices, alpha: float = 1.0, add: bool = False) -> None:
    """Let out = alpha a b, or out += alpha a b, each of the batch, in the dtype of `out`.

    cuBLAS thinks in columns: what lies here row by row is the transpose there, and (a b)^T = b^T a^T.
    """
    (count, rows, inner), columns = a.shape, b.shape[2]
    if b.shape != (count, inner, columns) or out.shape != (count, rows, columns) or out.steps[2] != 1:
        raise ValueError(f"matrices do not fit: {a.shape} by {b.shape} into {out.shape} with steps {out.steps}")
    if not (count and rows and columns):
        return
    kind = np.dtype(out.dtype)
    factor, kept = np.array(alpha, kind), np.array(1.0 if add else 0.0, kind)
    left, right = _stored(b), _stored(a)
    engine.blas(
        left[0], right[0], columns, rows, inner, factor.ctypes.data,
        b.pointer, CUDA_R[b.dtype], left[1], b.steps[0],
        a.pointer, CUDA_R[a.dtype], right[1], a.steps[0],
        kept.ctypes.data, out.pointer, CUDA_R[out.dtype], max(out.steps[1], columns), out.steps[0],
        count, COMPUTE[out.dtype], DEFAULT_ALGORITHM,
    )  # fmt: skip


def _stored(x: Matrices) -> tuple[int, int]:
    """Whether cuBLAS must transpose what it finds, and from how far apart its columns, our rows, begin."""
    _, rows, columns = x.shape
    _, by_row, by_column = x.steps
    if by_column == 1:
        return AS_IT_LIES, max(by_row, columns, 1)
    return TRANSPOSED, max(by_column, rows, 1)
