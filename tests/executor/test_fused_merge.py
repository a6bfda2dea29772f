"""The compiled merge is the op's meaning to the last bit, on states of any shape."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ops.merge import meaning
from executor.interpret import fused_for, kernel_called
from executor.kernels.fused_merge import merge


def state(rng, rows, dtype, lse_dtype, flat=False):
    shape = (rows,) if flat else (rows, 3)
    lse = rng.standard_normal(shape).astype(lse_dtype) * 5
    lse[rng.random(shape) < 0.3] = -np.inf
    out = rng.standard_normal((*shape, 8)).astype(dtype)
    out[lse == -np.inf] = 0
    return out, lse


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("flat", [False, True])
@given(seed=st.integers(0, 1000), rows=st.sampled_from([0, 1, 5]))
def test_the_bits_are_those_of_the_meaning(dtype, flat, seed, rows):
    rng = np.random.default_rng(seed)
    a, b = (state(rng, rows, dtype, dtype, flat) for _ in range(2))

    with np.errstate(divide="ignore"):
        for mine, meant in zip(merge(*a, *b), meaning(np, *a, *b), strict=True):
            assert mine.dtype == meant.dtype
            np.testing.assert_array_equal(mine, meant)


def test_a_state_of_no_rows_leaves_the_other_as_it_is():
    rng = np.random.default_rng(0)
    a, none = state(rng, 4, "float64", "float64"), state(rng, 0, "float64", "float64")

    assert merge(*a, *none)[0] is a[0]


def test_views_are_merged_as_what_they_show():
    rng = np.random.default_rng(0)
    (out, lse), b = state(rng, 8, "float64", "float64"), state(rng, 4, "float64", "float64")

    np.testing.assert_array_equal(merge(out[::2], lse[::2], *b)[0], meaning(np, out[::2], lse[::2], *b)[0])


def test_only_the_compiled_kernel_brings_it():
    assert set(fused_for(kernel_called("numba"))) <= {"merge"}
    assert fused_for(kernel_called("numpy")) == fused_for(kernel_called("dense")) == {}
