"""The referee: dense attention agrees with calculus, and a bound neither forgives NaN nor trips over infinities."""

import numpy as np
import pytest

from algorithms.ir.mask import CAUSAL, FULL
from algorithms.ir.score import Score
from executor.exactness import error, forward_bounds, largest_score, worst_ratio
from executor.kernels.dense import dense, dense_backward
from tests.executor.attention_cases import case


def test_dense_by_hand():
    # One query sees keys with scores 0 and log 3: weights 1/4 and 3/4; the third key is later.
    q, k = np.ones((1, 1, 1)), np.array([0, np.log(3), 9.0]).reshape(3, 1, 1)
    v = np.array([4.0, 8, 99]).reshape(3, 1, 1)
    out, lse = dense(q, k, v, np.array([1]), np.arange(3), CAUSAL, Score(1.0))
    assert out.item() == pytest.approx(4 / 4 + 8 * 3 / 4)
    assert lse.item() == pytest.approx(np.log(4))


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_dense_gradients_are_the_slopes_of_the_output(mask):
    c = case(n=4, m=5, heads=(2, 1), dims=(3, 2), mask=mask)
    grads = dict(zip("qkv", dense_backward(*c.block_with_do)[:3], strict=True))
    rng, step = np.random.default_rng(1), 1e-5
    for name, grad in grads.items():
        way = rng.standard_normal(grad.shape)
        ends = [c._replace(**{name: getattr(c, name) + sign * step * way}) for sign in (1, -1)]
        high, low = ((c.do * dense(*end.block)[0]).sum() for end in ends)
        assert (high - low) / (2 * step) == pytest.approx((grad * way).sum(), rel=1e-7, abs=1e-8)


def test_longdouble_and_float64_agree():
    c = case(heads=(4, 2), order="shuffled")
    bounds = forward_bounds(*c.block, eps=float(np.finfo(np.float64).eps))
    for double, longer, bound in zip(dense(*c.block), dense(*c.block, dtype=np.longdouble), bounds, strict=True):
        assert longer.dtype == np.longdouble
        assert worst_ratio(error(double, longer), bound) <= 1


def test_the_largest_score_is_over_visible_pairs():
    q, k = np.ones((1, 1, 1)), np.array([-2, 1, 9.0]).reshape(3, 1, 1)
    assert largest_score(q, k, np.array([1]), np.arange(3), CAUSAL, Score(0.5)) == 1.0
    assert largest_score(q, k, np.array([1]), np.arange(3), FULL, Score(0.5)) == 4.5
    assert largest_score(q, k, np.array([-1]), np.arange(3), CAUSAL, Score(0.5)) == 0.0


def test_error_of_infinities_and_nan():
    inf, nan = np.inf, np.nan
    found = error(np.array([1.0, -inf, nan, -inf, nan, 1]), np.array([1.5, -inf, nan, 2, 0, nan]))
    assert found.tolist() == [0.5, 0, 0, inf, inf, inf]


def test_error_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"shapes must agree, got \(2,\) and expected \(2, 1\)"):
        error(np.zeros(2), np.zeros((2, 1)))


def test_worst_ratio():
    assert worst_ratio(np.array([0.0, 1, 3]), np.array([0.0, 2, 2])) == 1.5
    assert worst_ratio(np.array([0.0, 1e-300]), 0.0) == np.inf
    assert worst_ratio(np.zeros(0), 1.0) == 0
