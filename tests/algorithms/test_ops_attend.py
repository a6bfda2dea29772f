"""What attention means on arrays: masks, scores, gradients, sinks, and what is trimmed for them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ir.mask import CAUSAL, Mask, parse_mask, sees
from algorithms.ir.score import Score, alibi_slopes
from algorithms.ops import attend, attend_backward, delta, seen, sink, sink_gradient, widen
from tests.algorithms.operands import DV, ROUNDING, D, H, assert_same, merged, operands


@pytest.mark.parametrize("mask", ["full", "causal"])
@given(cut=st.integers(0, 11))
def test_attention_to_two_parts_of_the_keys_merges_to_attention_to_all(mask, cut):
    q, k, v = operands()
    rows, cols = np.arange(2, 11), np.arange(11)
    params = {"mask": parse_mask(mask), "score": Score(0.3), "head_dim_v": DV}

    def part(keys):
        return attend.meaning(np, q, k[keys], v[keys], rows, cols[keys], **params)

    assert_same(merged(part(slice(0, cut)), part(slice(cut, None))), part(slice(None)))


SCORES = [Score(0.5), Score(0.5, 0.7), Score(0.5, 0.0, alibi_slopes(H)), Score(0.5, 0.7, alibi_slopes(H))]


def logit(product, distance, head, score):
    """One logit, in the order of flash-attn: scaled, capped, biased."""
    s = score.scale * product
    s = score.softcap * np.tanh(s / score.softcap) if score.softcap else s
    return s if score.slopes is None else s - 2.0 ** (-8 * (head + 1) / H) * distance


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("mask", ["full", "causal", "window:3", "documents:4+7", "full,documents:4+7"])
def test_attention_is_softmax_of_the_visible_scores(mask, score):
    q, k, v = operands(group=1)
    rows, cols = np.arange(-2, 7), np.arange(11)  # the first two rows see no key under a causal mask

    out, lse = attend.meaning(np, q, k, v, rows, cols, parse_mask(mask), score, DV)

    for i, row in enumerate(rows):
        seen = np.array([bool(sees(parse_mask(mask), row, c)) for c in cols])
        for h in range(H):
            logits = [logit(k[c, h] @ q[i, h], abs(row - c), h, score) for c in np.flatnonzero(seen)]
            weights = np.exp(logits)
            expected = weights @ v[seen, h] / weights.sum() if seen.any() else np.zeros(DV)
            np.testing.assert_allclose(out[i, h], expected, **ROUNDING)
            assert lse[i, h] == pytest.approx(np.log(weights.sum()) if seen.any() else -np.inf, abs=1e-12)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("mask", [CAUSAL, Mask(True, 2), Mask(False, 0, (2, 3))])
def test_the_gradients_are_the_slopes_of_the_loss(mask, score):
    q, k, v = operands(n=4, m=5)
    rows, cols = np.arange(-1, 3), np.arange(5)
    do, step = np.random.default_rng(5).normal(size=(4, H, DV)), 1e-6
    params = {"mask": mask, "score": score, "head_dim_v": DV}

    def loss(q, k, v):
        return (attend.meaning(np, q, k, v, rows, cols, **params)[0] * do).sum()

    out, lse = attend.meaning(np, q, k, v, rows, cols, **params)
    gradients = attend_backward.meaning(
        np, q, k, v, do, lse, *delta.meaning(np, do, out), rows, cols, shared=False, **params
    )
    for which, gradient in enumerate(gradients):
        for index in np.ndindex(gradient.shape):
            up, down = ([x.copy() for x in (q, k, v)] for _ in range(2))
            up[which][index] += step
            down[which][index] -= step
            assert gradient[index] == pytest.approx((loss(*up) - loss(*down)) / (2 * step), abs=1e-8)


def test_slopes_of_alibi_are_those_of_its_paper():
    np.testing.assert_allclose(alibi_slopes(8), [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256])
    np.testing.assert_allclose(alibi_slopes(16)[[0, 1, 15]], [2**-0.5, 1 / 2, 2**-8])
    # 12 heads: the slopes of 8, and of 16 every second one
    np.testing.assert_allclose(alibi_slopes(12), [*alibi_slopes(8), *(2.0 ** (-np.array([1, 3, 5, 7]) / 2))])
    np.testing.assert_allclose(alibi_slopes(1), [2**-8])


def test_a_sink_is_a_key_whose_value_is_zero():
    q, k, v = operands(group=1)
    rows, cols = np.arange(-2, 7), np.arange(11)
    sinks = np.array([0.3, -1.0, 80.0, 2.0])
    out, lse = attend.meaning(np, q, k, v, rows, cols, CAUSAL, Score(0.5), DV)

    sunk, top = sink.meaning(np, out, lse, sinks[None])

    np.testing.assert_allclose(top, np.logaddexp(lse, sinks), **ROUNDING)
    np.testing.assert_allclose(sunk, out * np.exp(lse - np.logaddexp(lse, sinks))[..., None], **ROUNDING)
    np.testing.assert_array_equal(top[0], sinks)  # a query that saw no key has the sink alone


def test_the_gradient_of_a_sink_is_the_slope_of_the_loss():
    q, k, v = operands(group=1)
    rows, cols, do = np.arange(-1, 8), np.arange(11), np.random.default_rng(5).normal(size=(9, H, DV))
    state, step = attend.meaning(np, q, k, v, rows, cols, CAUSAL, Score(0.5), DV), 1e-6

    def loss(sinks):
        return (sink.meaning(np, *state, sinks[None])[0] * do).sum()

    sinks = np.array([0.3, -1.0, 3.0, 0.0])
    out, lse = sink.meaning(np, *state, sinks[None])
    (found,) = sink_gradient.meaning(np, sinks[None], lse, *delta.meaning(np, do, out), dtype="float64")

    for h, ahead in enumerate(step * np.eye(H)):
        assert found[0, h] == pytest.approx((loss(sinks + ahead) - loss(sinks - ahead)) / (2 * step), abs=1e-8)


def test_widen_is_the_adjoint_of_seen():
    rng, keep = np.random.default_rng(0), np.array([1, 2, 5])
    x, y = rng.normal(size=(7, H, D)), rng.normal(size=(3, H, D))
    source = np.array([-1, 0, 1, -1, -1, 2, -1])

    (kept,), (wide,) = seen.meaning(np, x, keep=keep), widen.meaning(np, y, source=source)

    np.testing.assert_array_equal(kept, x[keep])
    assert (kept * y).sum() == pytest.approx((x * wide).sum())
    assert not widen.meaning(np, y[:0], source=np.full(7, -1))[0].any()


def test_where_k_and_v_are_one_tensor_its_gradient_is_the_sum_of_both():
    q, k, _ = operands(n=4, m=5)
    rows, cols, do = np.arange(4), np.arange(5), np.random.default_rng(5).normal(size=(4, H, DV))
    params = {"mask": CAUSAL, "score": Score(0.4), "head_dim_v": DV}
    out, lse = attend.meaning(np, q, k, k, rows, cols, **params)
    rest = (do, lse, *delta.meaning(np, do, out), rows, cols)

    dq, dk, dv = attend_backward.meaning(np, q, k, k[..., :DV], *rest, shared=False, **params)
    shared = attend_backward.meaning(np, q, k, k, *rest, shared=True, **params)

    assert_same(shared, (dq, dk + np.pad(dv, [(0, 0), (0, 0), (0, D - DV)])))
