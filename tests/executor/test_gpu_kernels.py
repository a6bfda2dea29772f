"""The kernel of GPUs, played on the host from the same source text, equals dense attention as every kernel does."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.ops import module
from executor.exactness import backward_bounds, error, worst_ratio
from executor.gpu import plan
from executor.gpu.glue import KINDS, fused
from executor.gpu.sources import every
from executor.kernels import cuda_tiles
from executor.kernels.dense import dense_backward
from tests.executor.attention_cases import ORDERS, case, check_that_nan_stays, forward_ratios, ratios
from tests.gpu import emulated
from tests.gpu.emulated import Emulated

pytestmark = pytest.mark.skipif(emulated.COMPILER is None, reason=emulated.MISSING)

DTYPES = ("float64", "float32", "float16")
MASKS = ("full", "causal", "window:11", "full,documents:30+1+40*9", "window:9,documents:30+1+40*9")
CHANGES = ({}, {"softcap": 2.0}, {"alibi": True}, {"softcap": 2.0, "alibi": True})
HEADS = ((3, 3), (4, 2), (5, 1))


def assert_exact(found):
    assert max(found.values()) <= 1, found


def play(monkeypatch, gpu, width=16, rows=8):
    """Let the kernel run on a played GPU, in tiles of so many keys."""
    monkeypatch.setattr(cuda_tiles, "engine", lambda: gpu)
    monkeypatch.setattr(plan, "WIDTH", width)
    monkeypatch.setattr(plan, "FEWEST_ROWS", rows)
    return gpu


@pytest.fixture
def gpu(monkeypatch):
    return play(monkeypatch, Emulated())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mask", MASKS)
def test_exact_for_every_mask_order_grouping_and_dtype(gpu, mask, order, heads, dtype):
    assert_exact(ratios(cuda_tiles, case(heads=heads, dims=(19, 7), dtype=dtype, mask=mask, order=order)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("changes", CHANGES[1:], ids=" ".join)
@pytest.mark.parametrize("mask", MASKS)
def test_exact_for_every_change_of_a_score(gpu, mask, changes, dtype):
    assert_exact(
        ratios(cuda_tiles, case(heads=(6, 2), dims=(19, 7), dtype=dtype, mask=mask, order="zigzag", **changes))
    )


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(0, 40),
    m=st.integers(0, 70),
    heads=st.sampled_from(HEADS),
    dims=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    dtype=st.sampled_from(DTYPES),
    mask=st.sampled_from(MASKS),
    changes=st.sampled_from(CHANGES),
    order=st.sampled_from(ORDERS),
    cache_bytes=st.integers(1, 20_000),
    width=st.integers(1, 48),
    threads=st.sampled_from([32, 64, 256]),
    seed=st.integers(0, 1000),
)
def test_exact_for_any_sizes_any_tiles_and_any_blocks(
    n, m, heads, dims, dtype, mask, changes, order, cache_bytes, width, threads, seed
):
    found = case(n, m, heads, dims, dtype, mask, order, seed=seed, **changes)
    with pytest.MonkeyPatch.context() as patch:
        play(patch, Emulated(cache_bytes, threads=threads), width, rows=1)
        assert_exact(ratios(cuda_tiles, found))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_order_in_which_threads_run_changes_no_bit(gpu, monkeypatch, order):
    c = case(heads=(4, 2), mask="window:11", softcap=2.0, alibi=True)
    out, lse = cuda_tiles.attend(*c.block)
    monkeypatch.setenv("RINGLOOM_ORDER", str(order))
    for threads in (32, 96):
        gpu.threads = threads
        other, other_lse = cuda_tiles.attend(*c.block)
        if threads == 32:
            assert np.array_equal(out, other)
            assert np.array_equal(lse, other_lse)
        assert_exact(ratios(cuda_tiles, c))


@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("n, m", [(0, 5), (5, 0), (0, 0)])
def test_no_queries_or_no_keys(gpu, mask, n, m):
    c = case(n=n, m=m, mask=mask)
    out, lse = cuda_tiles.attend(*c.block)
    assert not out.any()
    assert np.isneginf(lse).all()
    assert_exact(ratios(cuda_tiles, c))


def test_a_query_that_sees_no_key_gives_nothing_and_takes_nothing(gpu):
    c = case(mask="causal")._replace(rows=np.full(37, 52))  # keys begin at 53
    out, lse = cuda_tiles.attend(*c.block)
    grads = cuda_tiles.attend_backward(*c.block[:3], c.do, lse, (c.do * out).sum(axis=2), *c.block[3:])
    assert not out.any()
    assert np.isneginf(lse).all()
    assert not any(grad.any() for grad in grads)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_nan_stays_in_the_rows_that_see_it(gpu, dtype):
    check_that_nan_stays(cuda_tiles, dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_exact_for_logits_of_ten_thousand(gpu, dtype):
    assert_exact(ratios(cuda_tiles, case(dtype=dtype, largest_logit=1e4)))


def test_gradients_over_parts_of_the_keys_add_up(gpu):
    c = case(heads=(4, 2), order="zigzag")
    parts = np.array_split(np.arange(53), 3)
    whole = cuda_tiles.attend(*c.block)
    delta = (c.do * whole[0]).sum(axis=2)
    keys = [(c.k[p], c.v[p], c.cols[p]) for p in parts]

    shares = [
        cuda_tiles.attend_backward(c.q, k, v, c.do, whole[1], delta, c.rows, cols, c.mask, c.score)
        for k, v, cols in keys
    ]

    grads = (sum(s[0] for s in shares), *(np.concatenate([s[i] for s in shares]) for i in (1, 2)))
    bounds = backward_bounds(*c.block_with_do, eps=float(np.finfo(float).eps))[:3]
    for grad, want, bound in zip(grads, dense_backward(*c.block_with_do)[:3], bounds, strict=True):
        assert worst_ratio(error(grad, want), bound) <= 1


def test_values_that_are_the_first_columns_of_keys_are_read_where_they_lie(gpu):
    c = case(heads=(4, 2), dims=(16, 16))
    shared = c._replace(v=c.k[..., :9], do=c.do[..., :9])
    assert not shared.v.flags.c_contiguous
    assert_exact(ratios(cuda_tiles, shared))


@pytest.mark.parametrize("pieces, exact", [(1, False), (3, True)])
def test_weights_of_a_half_type_carry_all_digits_of_float32_in_three_pieces(gpu, monkeypatch, pieces, exact):
    monkeypatch.setattr(cuda_tiles, "PIECES", pieces)
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    found = forward_ratios(cuda_tiles, case(heads=(4, 2), dtype=bfloat16))
    assert (max(found.values()) <= 1) == exact, found


def test_every_kernel_there_is_was_played(gpu):
    for dtype in DTYPES:
        ratios(cuda_tiles, case(dtype=dtype))
    played = set(gpu.launched) | {"softmax_tile<float, Brain>"}  # with ml_dtypes, above
    assert {kernel for kernel in every() if "_" in kernel} == played


def states(dtype, rng, n=5, heads=3, dim=7):
    out, lse = rng.standard_normal((n, heads, dim)), 3 * rng.standard_normal((n, heads))
    lse[rng.random((n, heads)) < 0.3] = -np.inf
    out[np.isneginf(lse)] = 0
    return out.astype(dtype), lse.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_fused_glue_means_what_its_op_means(kind, dtype):
    rng = np.random.default_rng(1)
    a, b = states(dtype, rng), states(dtype, rng)
    top = np.maximum(a[1], b[1])
    given = {"merge": (*a, *b), "weigh": (*a, top), "normalise": (a[0], np.exp(a[1]), top)}[kind]
    gpu = Emulated()

    got, meant = fused(gpu)[kind](*given), module(kind).meaning(np, *given)

    eps = np.finfo(dtype).eps
    assert gpu.launched
    for x, y in zip(got, meant, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=2 * eps, atol=2 * eps)


def test_glue_of_states_that_differ_in_rows_keeps_its_meaning():
    rng = np.random.default_rng(1)
    a, b = states("float32", rng), states("float32", rng, n=0)
    assert fused(Emulated())["merge"](*a, *b) == a


def test_nothing_of_cupy_is_imported_to_play():
    assert "cupy" not in sys.modules
