"""A product by cuBLAS's call, on parts of arrays as they lie, is the product; the call is played on the host."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.gpu.gemm import matrices, multiply
from tests.gpu.emulated import Emulated

GPU = Emulated(library=object())


def laid(count, rows, columns, how, rng, dtype):
    """An array (count, rows, columns) that lies folded, by token, or as the first columns of another."""
    if how == "folded":
        return rng.standard_normal((count, rows, columns)).astype(dtype)
    width = columns + (3 if how == "first columns" else 0)
    return rng.standard_normal((rows, count, width)).astype(dtype)[..., :columns].transpose(1, 0, 2)


HOW = st.sampled_from(["folded", "by token", "first columns"])
FEW = st.integers(1, 5)


@given(FEW, FEW, FEW, FEW, HOW, HOW, HOW, st.booleans(), st.booleans(), st.booleans(), st.sampled_from("fd"))
def test_a_product_of_parts_is_the_product(count, rows, inner, columns, how_a, how_b, how_c, ta, tb, add, dtype):
    rng = np.random.default_rng(0)
    a = laid(count, inner if ta else rows, rows if ta else inner, how_a, rng, dtype)
    b = laid(count, columns if tb else inner, inner if tb else columns, how_b, rng, dtype)
    c = laid(count, rows, columns, how_c, rng, dtype)
    before, (left, right) = c.copy(), (x.swapaxes(1, 2) if t else x for x, t in ((a, ta), (b, tb)))
    a_all, b_all = (m.transposed if t else m for m, t in ((matrices(GPU, a), ta), (matrices(GPU, b), tb)))

    multiply(GPU, a_all, b_all, matrices(GPU, c), 0.5, add)

    np.testing.assert_allclose(c, 0.5 * (left @ right) + before * add, rtol=1e-5, atol=1e-5)


def test_a_part_of_a_batch_is_some_heads_and_some_rows():
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((3, 6, 6)) for _ in range(3))
    want = c.copy()
    want[1:, 2:5] = a[1:, 2:5] @ b[1:]
    every, some = slice(1, None), slice(2, 5)

    multiply(GPU, matrices(GPU, a).part(every, some), matrices(GPU, b).part(every, slice(None)),
             matrices(GPU, c).part(every, some))  # fmt: skip

    np.testing.assert_allclose(c, want, rtol=1e-12)


def test_half_types_are_multiplied_into_float32():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((1, 4, 4)).astype(np.float16) for _ in range(2))
    c = np.empty((1, 4, 4), np.float32)

    multiply(GPU, matrices(GPU, a), matrices(GPU, b), matrices(GPU, c))

    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-6)


def test_what_does_not_fit_is_refused():
    a, b = np.zeros((1, 2, 3)), np.zeros((1, 2, 3))
    with pytest.raises(ValueError, match="matrices do not fit"):
        multiply(GPU, matrices(GPU, a), matrices(GPU, b), matrices(GPU, a))
    with pytest.raises(ValueError, match="rows of matrices must be contiguous"):
        matrices(GPU, np.zeros((1, 3, 2)).swapaxes(1, 2))
