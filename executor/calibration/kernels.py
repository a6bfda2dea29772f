"""Attention kernels, over tiles of several shapes, and a matrix product to compare them with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from algorithms.ir.mask import CAUSAL, FULL
from algorithms.ir.score import Score
from executor.calibration.items import Item, random
from executor.kernels import Kernel

TALL = 256  # rows from which a kernel may cut other tiles under a mask, though it hides nothing
GEMM = 512  # rows and columns of the matrix product
ONE = 1  # head, beside 8, on the smallest tile of one row: what is left of none is the op itself


class Shape(NamedTuple):
    """Query rows, keys and heads of a tile."""

    rows: int
    keys: int
    heads: int


class Shapes(NamedTuple):
    """Tiles to measure: all visible; with the diagonal through them, which are square; and backward."""

    whole: Sequence[Shape]
    cut: Sequence[Shape]
    backward: Sequence[Shape]


QUICK = Shapes(
    whole=(Shape(1, 1024, 8), Shape(1, 8192, 8), Shape(256, 256, 2), Shape(512, 1024, 2), Shape(1024, 1024, 2)),
    cut=(Shape(512, 512, 2),),
    backward=(),
)
THOROUGH = Shapes(
    whole=(
        *(Shape(1, keys, 8) for keys in (512, 2048, 8192, 32768)),
        *(Shape(32, keys, 4) for keys in (512, 4096)),
        *(Shape(256, keys, 4) for keys in (256, 2048)),
        *(Shape(512, keys, 4) for keys in (512, 1024, 4096)),
        *(Shape(1024, keys, 2) for keys in (1024, 2048)),
        *(Shape(2048, keys, 2) for keys in (512, 2048, 4096)),
    ),
    cut=(Shape(256, 256, 4), Shape(512, 512, 4), Shape(2048, 2048, 2)),
    backward=(
        Shape(16, 16, 8),
        Shape(256, 256, 4),
        Shape(512, 512, 4),
        Shape(512, 2048, 2),
        Shape(2048, 512, 2),
        Shape(2048, 2048, 2),
    ),
)


def kernels(kernel: Kernel, dtype: str, head_dim: int, shapes: Shapes) -> Iterator[Item]:
    """Yield the tiles of one type and head size: forward without a mask, seen whole under one, and cut; backward."""
    for passes, whole in (("fwd", shapes.whole), ("bwd", shapes.backward)):
        squares = shapes.cut if whole else ()
        tall = [shape for shape in whole if shape.rows >= TALL]
        for name, tiles in (
            ("full", [whole[0]._replace(heads=ONE), *whole] if whole else ()),
            ("seen", tall),
            ("cut", squares),
        ):
            for shape in tiles:
                yield _tile(kernel, passes, name, dtype, head_dim, shape)


def _tile(kernel: Kernel, passes: str, name: str, dtype: str, dim: int, shape: Shape) -> Item:
    rows, keys, heads = shape
    q, (k, v) = random((rows, heads, dim), dtype), (random((keys, heads, dim), dtype) for _ in range(2))
    mask = FULL if name == "full" else CAUSAL
    at = np.arange(rows) + (0 if name == "cut" else keys)
    score = Score(dim**-0.5)
    operands: tuple[Any, ...] = (at, np.arange(keys), mask, score)
    if passes == "bwd":
        lse, delta = random((rows, heads), dtype) + 8, random((rows, heads), dtype)
        gradient = random((rows, heads, dim), dtype)

        def call() -> Any:
            return kernel.attend_backward(q, k, v, gradient, lse, delta, *operands)
    else:

        def call() -> Any:
            return kernel.attend(q, k, v, *operands)

    pairs = rows * (rows + 1) // 2 if name == "cut" else rows * keys
    row = {"passes": passes, "mask": name, "dtype": dtype, "head_dim": dim, **shape._asdict(), "pairs": pairs}
    return Item("kernels", row, call)


def gemm(dtype: str) -> Item:
    """A large matrix product: the speed that all others are a share of."""
    a, b, c = (random((GEMM, GEMM), dtype) for _ in range(3))
    return Item("gemm", {"dtype": dtype, "flop": 2 * GEMM**3}, lambda: np.matmul(a, b, out=c))
