"""What a kernel refuses, in one line that names the rule and the value; and the exp that the compiled one uses."""

import numpy as np
import pytest

from executor.kernels import find, fused_numba
from tests.executor.attention_cases import case


def test_an_unknown_kernel_is_named_with_the_nearest():
    with pytest.raises(
        ValueError, match="no kernel 'nubma': expected one of cuda, numba, numpy, torch; nearest is numba"
    ):
        find("nubma")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"k": np.zeros((53, 2, 15))}, r"k must be \(53, 2, 16\) for q .* got \(53, 2, 15\)"),
        ({"rows": np.arange(36)}, r"positions must be \(37,\) and \(53,\), got rows \(36,\)"),
        ({"q": np.zeros((37, 3, 16))}, "kv heads must divide query heads, got 3 query heads and 2 kv heads"),
    ],
)
def test_shapes_that_contradict_each_other_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        find("numpy").attend(*case()._replace(**change).block)


def test_a_dtype_that_is_not_computed_is_refused():
    c = case()
    with pytest.raises(TypeError, match=r"kernels compute float16, .* got an array of int64"):
        find("numpy").attend(*c._replace(k=c.k.astype(np.int64)).block)


@pytest.mark.parametrize("dtype, lowest", [("float64", -708), ("float32", -87)])
def test_the_compiled_exp_is_within_one_eps(dtype, lowest):
    x = np.linspace(lowest, 0, 20011).astype(dtype)
    found = x.copy()
    fused_numba.exp_and_sum(found, x.dtype.type(0))
    exact = np.exp(x.astype(np.longdouble))
    assert float((np.abs(found - exact) / exact).max()) < np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_compiled_exp_at_the_ends(dtype):
    x = np.array([-np.inf, -1e5, 0, 1e5, np.inf, np.nan] * 3, dtype)
    total = fused_numba.exp_and_sum(x, x.dtype.type(0))
    assert np.array_equal(x[:6], np.array([0, 0, 1, np.inf, np.inf, np.nan], dtype), equal_nan=True)
    assert np.isnan(total)


def test_where_no_folder_can_be_written_the_kernel_is_compiled_each_time(monkeypatch):
    def njit(cache=False, **options):
        if cache:  # what numba says of a read-only checkout and a read-only home
            raise RuntimeError("cannot cache function 'double': no locator available")
        return lambda function: function

    monkeypatch.setattr(fused_numba, "njit", njit)

    assert fused_numba.compiled()(lambda x: 2 * x)(3) == 6
