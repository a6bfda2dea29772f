"""Every kernel equals dense attention, within the rounding of its dtype, wherever the tokens come from."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.ir.problem import LEAST_CAP, MOST_CAP
from algorithms.ops.merge import meaning as merge
from executor.exactness import backward_bounds, error, forward_bounds, worst_ratio
from executor.kernels import find
from executor.kernels.dense import dense_backward
from tests.executor.attention_cases import ORDERS, case, check_that_nan_stays, forward_ratios, ratios, set_tiles

DTYPES = ("float64", "float32", "float16")
MASKS = (
    "full",
    "causal",
    "window:11",
    "documents:30+1+40*9",
    "full,documents:30+1+40*9",
    "window:9,documents:30+1+40*9",
)
CHANGES = ({}, {"softcap": 2.0}, {"alibi": True}, {"softcap": 2.0, "alibi": True})
HEADS = ((3, 3), (4, 2), (5, 1))  # multi-head, grouped, multi-query


def assert_exact(found):
    assert max(found.values()) <= 1, found


@pytest.fixture(params=["numpy", "numba"])
def kernel(request):
    return find(request.param)


@pytest.fixture
def small_tiles(monkeypatch):
    set_tiles(monkeypatch, side=16, longest=16)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mask", MASKS)
def test_exact_for_every_mask_order_grouping_and_dtype(kernel, mask, order, heads, dtype):
    assert_exact(ratios(kernel, case(heads=heads, dims=(19, 7), dtype=dtype, mask=mask, order=order)))


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("changes", CHANGES[1:], ids=" ".join)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mask", MASKS)
def test_exact_for_every_change_of_a_score_under_every_mask(kernel, mask, order, changes, dtype):
    assert_exact(ratios(kernel, case(heads=(6, 2), dims=(19, 7), dtype=dtype, mask=mask, order=order, **changes)))


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("softcap", [LEAST_CAP, 0.05, 1.0, 50.0, 1e4, MOST_CAP])
def test_exact_however_near_the_cap_scores_come(kernel, softcap, dtype):
    # at 0.05 tanh is 1 to the last bit for most, at 0.001 its slope is 0 for most, at 1e4 its argument is next to none
    assert_exact(ratios(kernel, case(dtype=dtype, softcap=softcap, largest_logit=40.0)))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_exact_across_tiles_of_the_real_size(kernel, mask, dtype):
    # narrow heads: a tile is tokens by tokens, and the reference of long doubles has no BLAS
    assert_exact(ratios(kernel, case(n=701, m=1103, heads=(2, 1), dims=(4, 3), mask=mask, dtype=dtype)))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 3])
def test_exact_for_few_queries_over_many_keys(kernel, n, dtype):
    # decode: tiles as long as LONGEST, more than one of them
    assert_exact(ratios(kernel, case(n=n, m=5000, heads=(4, 2), mask="full", dtype=dtype)))


@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from(["numpy", "numba"]),
    n=st.integers(0, 40),
    m=st.integers(0, 70),
    heads=st.sampled_from(HEADS),
    dims=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    dtype=st.sampled_from(DTYPES),
    mask=st.sampled_from(MASKS),
    changes=st.sampled_from(CHANGES),
    order=st.sampled_from(ORDERS),
    side=st.integers(1, 24),
    longest=st.integers(1, 48),
    seed=st.integers(0, 1000),
)
def test_exact_for_any_sizes_and_any_tiles(name, n, m, heads, dims, dtype, mask, changes, order, side, longest, seed):
    found = case(n, m, heads, dims, dtype, mask, order, seed=seed, **changes)
    with pytest.MonkeyPatch.context() as patch:
        set_tiles(patch, side, longest)
        assert_exact(ratios(find(name), found))


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_exact_for_logits_of_ten_thousand(kernel, mask, dtype):
    assert_exact(ratios(kernel, case(mask=mask, dtype=dtype, largest_logit=1e4)))


@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("n, m", [(0, 5), (5, 0), (0, 0)])
def test_no_queries_or_no_keys(kernel, mask, n, m):
    c = case(n=n, m=m, mask=mask)
    out, lse = kernel.attend(*c.block)
    assert not out.any()
    assert np.isneginf(lse).all()
    assert_exact(ratios(kernel, c))


@pytest.mark.usefixtures("small_tiles")
def test_a_query_that_sees_no_key_gives_nothing_and_takes_nothing(kernel):
    c = case(mask="causal")._replace(rows=np.full(37, 52))  # keys begin at 53
    out, lse = kernel.attend(*c.block)
    grads = kernel.attend_backward(*c.block[:3], c.do, lse, (c.do * out).sum(axis=2), *c.block[3:])
    assert not out.any()
    assert np.isneginf(lse).all()
    assert not any(grad.any() for grad in grads)


def test_half_types_are_computed_in_float32(kernel):
    c = case(dtype="float16")
    out, lse = kernel.attend(*c.block)
    wide = (x.astype(np.float32) for x in (c.q, c.k, c.v))
    same_out, same_lse = kernel.attend(*wide, *c.block[3:])
    assert out.dtype == lse.dtype == np.float32
    assert np.array_equal(out, same_out)
    assert np.array_equal(lse, same_lse)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_nan_stays_in_the_rows_that_see_it(kernel, dtype):
    check_that_nan_stays(kernel, dtype)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gradients_over_parts_of_the_keys_add_up(kernel, dtype):
    # What a ring does: lse and delta of the whole row, the keys a part at a time.
    c = case(dtype=dtype, heads=(4, 2), order="zigzag")
    parts = np.array_split(np.arange(53), 3)
    blocks = [(c.q, c.k[p], c.v[p], c.rows, c.cols[p], c.mask, c.score) for p in parts]
    state = kernel.attend(*blocks[0])
    for b in blocks[1:]:
        state = merge(np, *state, *kernel.attend(*b))
    out, lse = state
    delta = (c.do * out).sum(axis=2)

    shares = [kernel.attend_backward(*b[:3], c.do, lse, delta, *b[3:]) for b in blocks]

    grads = (sum(s[0] for s in shares), *(np.concatenate([s[i] for s in shares]) for i in (1, 2)))
    bounds = backward_bounds(*c.block_with_do, eps=float(np.finfo(dtype).eps))[:3]
    for grad, want, bound in zip(grads, dense_backward(*c.block_with_do)[:3], bounds, strict=True):
        assert worst_ratio(error(grad, want), bound) <= 1


def test_both_kernels_agree():
    c = case(n=300, m=400, heads=(4, 2), order="zigzag")
    bounds = forward_bounds(*c.block, eps=float(np.finfo(np.float64).eps))
    (out, lse), (other_out, other_lse) = (find(name).attend(*c.block) for name in ("numpy", "numba"))
    assert worst_ratio(error(out, other_out), bounds.out) <= 1
    assert worst_ratio(error(lse, other_lse), bounds.lse) <= 1


def test_the_compiled_source_also_runs_uncompiled():
    program = """
from executor.kernels import find
from tests.executor.attention_cases import case, ratios
for dtype in ("float64", "float32"):
    found = ratios(find("numba"), case(n=9, m=12, dtype=dtype))
    assert max(found.values()) <= 1, found
print("exact")
"""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (run.stdout, run.returncode) == ("exact\n", 0), run.stderr


def test_forward_error_is_measured_against_the_dtype(kernel):
    # The same numbers in float32 are far outside the float64 bound: the bound follows the dtype.
    c = case(dtype="float32")
    out, _ = kernel.attend(*c.block)
    double = c._replace(q=c.q.astype(float), k=c.k.astype(float), v=c.v.astype(float))
    bound = forward_bounds(*double.block, eps=float(np.finfo(np.float64).eps)).out
    exact, _ = kernel.attend(*double.block)
    assert max(forward_ratios(kernel, c).values()) <= 1
    assert worst_ratio(error(out, exact), bound) > 1
