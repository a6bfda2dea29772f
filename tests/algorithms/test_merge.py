"""Attention over two sets of keys is the merge of attention over each; a row that saw no key is the identity."""

from functools import partial

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.ir import Attention, Mesh, ScheduleError, spmd
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.merge import meaning
from executor.exactness import error, forward_bounds, worst_ratio
from executor.kernels import find
from executor.kernels.dense import dense
from tests.executor.attention_cases import case

merge = partial(meaning, np)
EPS = float(np.finfo(np.float64).eps)


@st.composite
def states(draw, count):
    """`count` partial states of the same rows; some rows of each saw nothing."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([1.0, 30.0, 1e4]))
    return [random_state(rng, spread) for _ in range(count)]


def random_state(rng, spread):
    out, lse = rng.standard_normal((5, 2, 3)), spread * rng.standard_normal((5, 2))
    blind = rng.random((5, 2)) < 0.3
    return np.where(blind[..., None], 0, out), np.where(blind, -np.inf, lse)


def assert_same(a, b, states):
    outs, lses = zip(*states, strict=True)
    value = max(np.abs(out).max() for out in outs)
    score = max(np.abs(lse[np.isfinite(lse)]).max(initial=0) for lse in lses)
    assert worst_ratio(error(a[0], b[0]), 4 * EPS * (1 + score) * value) <= 1
    assert worst_ratio(error(a[1], b[1]), 4 * EPS * (1 + score)) <= 1


@given(states(2))
def test_commutative(found):
    a, b = found
    left, right = merge(*a, *b), merge(*b, *a)
    assert np.array_equal(left[0], right[0])
    assert np.array_equal(left[1], right[1])


@given(states(3))
def test_associative_up_to_rounding(found):
    a, b, c = found
    assert_same(merge(*merge(*a, *b), *c), merge(*a, *merge(*b, *c)), found)


@given(states(1))
def test_the_row_that_saw_nothing_is_the_identity(found):
    (out, lse) = found[0]
    nothing = np.zeros_like(out), np.full_like(lse, -np.inf)
    for merged in (merge(out, lse, *nothing), merge(*nothing, out, lse)):
        assert np.array_equal(merged[0], out)
        assert np.array_equal(merged[1], lse)


def test_nothing_and_nothing_is_nothing():
    nothing = np.zeros((1, 1, 2)), np.full((1, 1), -np.inf)
    out, lse = merge(*nothing, *nothing)
    assert not out.any()
    assert np.isneginf(lse).all()


@pytest.mark.parametrize("other", [-np.inf, 0.5, np.inf, np.nan])
def test_nan_is_never_hidden(other):
    sick = np.full((1, 1, 1), np.nan), np.full((1, 1), np.nan)
    well = np.ones((1, 1, 1)), np.full((1, 1), other)
    with np.errstate(invalid="ignore"):
        for merged in (merge(*sick, *well), merge(*well, *sick)):
            assert np.isnan(merged[0]).all()
            assert np.isnan(merged[1]).all()


@given(states(2))
def test_any_array_api_namespace_gives_the_same_bits(found):
    a, b = found
    expected = merge(*a, *b)
    strict = [array_api_strict.asarray(x) for x in (*a, *b)]
    out, lse = meaning(array_api_strict, *strict)
    assert np.array_equal(np.asarray(out), expected[0])
    assert np.array_equal(np.asarray(lse), expected[1])


def test_the_state_keeps_its_dtype_and_is_merged_in_float64():
    # 1 + exp(-17) is 1 in float32: a float32 merge would give lse = 0.
    first = np.ones((1, 1, 1), np.float32), np.zeros((1, 1), np.float32)
    second = np.full((1, 1, 1), 2.0**24, np.float32), np.full((1, 1), -17, np.float32)
    out, lse = merge(*first, *second)
    assert out.dtype == lse.dtype == np.float32
    assert out[0, 0, 0] == np.float32((1 + np.exp(-17.0) * 2.0**24) / (1 + np.exp(-17.0)))
    assert lse[0, 0] == pytest.approx(np.log1p(np.exp(-17.0)), rel=1e-6)


@settings(deadline=None, max_examples=30)
@given(
    parts=st.integers(1, 64),
    dtype=st.sampled_from(["float64", "float32"]),
    mask=st.sampled_from(["full", "causal"]),
    order=st.sampled_from(["contiguous", "zigzag", "shuffled"]),
    seed=st.integers(0, 1000),
)
def test_attention_over_parts_of_the_keys_merges_to_dense_attention(parts, dtype, mask, order, seed):
    c = case(n=23, m=150, dtype=dtype, mask=mask, order=order, seed=seed)
    blocks = [(c.q, c.k[p], c.v[p], c.rows, c.cols[p], c.mask, c.score) for p in np.array_split(np.arange(150), parts)]
    state = find("numpy").attend(*blocks[0])
    for b in blocks[1:]:
        state = merge(*state, *find("numpy").attend(*b))
    bounds = forward_bounds(*c.block, eps=float(np.finfo(dtype).eps))
    for found, want, bound in zip(state, dense(*c.block), bounds, strict=True):
        assert worst_ratio(error(found, want), bound) <= 1


def test_a_part_merged_twice_is_caught():
    c = case(n=23, m=40, mask="full")
    half = (c.q, c.k[:20], c.v[:20], c.rows, c.cols[:20], c.mask, c.score)
    state = merge(*find("numpy").attend(*c.block), *find("numpy").attend(*half))
    bounds = forward_bounds(*c.block, eps=EPS)
    for found, want, bound in zip(state, dense(*c.block), bounds, strict=True):
        assert worst_ratio(error(found, want), bound) > 1


def test_states_do_not_add_up():
    def body(me, problem):
        q, k, v = load(me, problem, problem.queries(1)[0], problem.keys(1)[0])
        return attend(q, k, v) + attend(q, k, v)

    with pytest.raises(ScheduleError, match=r"S6: states of attention do not add up: .* merge\(a, b\)"):
        spmd("cp")(body)(Attention(1, 1, 8, 4, 4), Mesh(cp=1))
