"""What the ops mean on arrays, and what they cost."""

from math import comb

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import algorithms
from algorithms.ir import Attention, Mesh, spmd
from algorithms.ir.mask import CAUSAL, Mask, parse_mask, sees
from algorithms.ir.score import Score, alibi_slopes
from algorithms.ops import (
    add,
    attend,
    attend_backward,
    delta,
    merge,
    normalise,
    repeat_heads,
    seen,
    sink,
    sink_gradient,
    weigh,
    widen,
    work,
)
from algorithms.ops.collective import meaning
from algorithms.ops.load import heads_of, load, shard
from tests.algorithms.tracing import PROGRAMS, meshes, small, traced

H, D, DV = 4, 6, 5
ROUNDING = {"rtol": 1e-13, "atol": 1e-13}


def states(seed, n=7, blind=2):
    """Partial states of n rows, of which the first `blind` have seen nothing."""
    rng = np.random.default_rng(seed)
    out, lse = rng.normal(size=(n, H, DV)), rng.normal(scale=20, size=(n, H))
    out[:blind], lse[:blind] = 0, -np.inf
    return out, lse


def merged(a, b):
    return merge.meaning(np, *a, *b)


def assert_same(one, other):
    for x, y in zip(one, other, strict=True):
        np.testing.assert_allclose(x, y, **ROUNDING)


def operands(n=9, m=11, group=2, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [(n, H, D), (m, H // group, D), (m, H // group, DV)]
    return [rng.normal(size=shape) for shape in shapes]


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_merge_is_commutative_and_associative(a, b, c):
    a, b, c = states(a), states(b, blind=1), states(c, blind=3)

    assert_same(merged(a, b), merged(b, a))
    assert_same(merged(merged(a, b), c), merged(a, merged(b, c)))


def test_a_row_that_saw_nothing_is_neutral():
    nothing = np.zeros((7, H, DV)), np.full((7, H), -np.inf)

    assert_same(merged(states(0), nothing), states(0))
    assert_same(merged(nothing, nothing), nothing)


def test_a_merge_far_from_the_maximum_neither_overflows_nor_forgets():
    (out, lse), low = states(1, blind=0), states(2, blind=0)

    assert_same(merged((out, lse + 5000), low), (out, lse + 5000))


def test_a_merge_keeps_the_states_dtype_and_works_in_float64():
    narrow = [tuple(x.astype(np.float32) for x in states(seed)) for seed in (1, 2)]
    wide = [tuple(x.astype(np.float64) for x in state) for state in narrow]

    result = merged(*narrow)

    assert [x.dtype for x in result] == [np.float32, np.float32]
    for x, y in zip(result, merged(*wide), strict=True):
        np.testing.assert_array_equal(x, y.astype(np.float32))


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


def test_weighing_summing_and_normalising_is_merging():
    parts = [states(seed, blind=seed) for seed in (1, 2, 3)]  # row 0 saw nothing on any of them
    top = np.maximum.reduce([lse for _, lse in parts])

    weighed = [weigh.meaning(np, *part, top) for part in parts]
    result = normalise.meaning(np, sum(w[0] for w in weighed), sum(w[1] for w in weighed), top)

    assert_same(result, merged(merged(parts[0], parts[1]), parts[2]))
    assert (result[1][0] == -np.inf).all()


def test_repeated_heads_stand_side_by_side():
    x = np.arange(12.0).reshape(2, 3, 2)

    (repeated,) = repeat_heads.meaning(np, x, 2)

    np.testing.assert_array_equal(repeated, x[:, [0, 0, 1, 1, 2, 2]])


def test_delta_and_add():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, H, DV))

    np.testing.assert_allclose(delta.meaning(np, a, b)[0], np.einsum("nhd,nhd->nh", a, b))
    np.testing.assert_array_equal(add.meaning(np, a, b)[0], a + b)


# -- collectives ---------------------------------------------------------------------------------------------

ROWS = st.lists(st.integers(0, 4), min_size=1, max_size=5)


def run(xp, kind, inputs, rows, **params):
    results = meaning(xp, kind, [tuple(map(xp.asarray, arrays)) for arrays in inputs], rows, params)
    return [tuple(map(np.asarray, arrays)) for arrays in results]


every_library = pytest.mark.parametrize("xp", [np, array_api_strict], ids=["numpy", "strict"])


def shards(rows, *widths):
    rng = np.random.default_rng(sum(rows))
    return [tuple(rng.integers(-9, 9, size=(n, *w)).astype(float) for w in widths) for n in rows]


@every_library
@given(rows=ROWS)
def test_all_gather_concatenates_the_members_rows(xp, rows):
    inputs = shards(rows, (2, 3), (2,))
    whole = [np.concatenate(same) for same in zip(*inputs, strict=True)]

    for result in run(xp, "all_gather", inputs, rows):
        np.testing.assert_equal(list(result), whole)


@every_library
@pytest.mark.parametrize("op, reduce", [("sum", np.sum), ("max", np.max)])
@given(rows=ROWS)
def test_reduce_scatter_reduces_and_each_keeps_its_rows(xp, op, reduce, rows):
    inputs = shards([sum(rows)] * len(rows), (2, 3))
    whole = reduce(np.stack([x for (x,) in inputs]), axis=0)

    results = run(xp, "reduce_scatter", inputs, rows, op=op)

    np.testing.assert_equal([x.shape[0] for (x,) in results], rows)
    np.testing.assert_array_equal(np.concatenate([x for (x,) in results]), whole)


@every_library
def test_reduce_scatter_merges_states(xp):
    rows, parts = [3, 0, 4], [states(seed, blind=seed) for seed in (1, 2, 3)]
    whole = merged(merged(parts[0], parts[1]), parts[2])

    results = run(xp, "reduce_scatter", parts, rows, op="merge")

    assert_same([np.concatenate(same) for same in zip(*results, strict=True)], whole)


@every_library
@pytest.mark.parametrize("op, reduce", [("sum", np.sum), ("max", np.max)])
@given(p=st.integers(1, 5), n=st.integers(0, 4))
def test_all_reduce_gives_every_member_the_reduction(xp, op, reduce, p, n):
    inputs = shards([n] * p, (2, 3), (2,))
    whole = [reduce(np.stack(same), axis=0).ravel() for same in zip(*inputs, strict=True)]

    for result in run(xp, "all_reduce", inputs, [n] * p, op=op):
        np.testing.assert_equal(list(result), whole)


@every_library
@given(rows=ROWS)
def test_all_to_all_transposes_tokens_and_heads(xp, rows):
    p = len(rows)
    inputs = shards(rows, (2 * p, 3))
    whole = np.concatenate([x for (x,) in inputs])

    split = run(xp, "all_to_all", inputs, rows, split="heads")
    back = run(xp, "all_to_all", split, rows, split="tokens")

    for member, (x,) in enumerate(split):
        np.testing.assert_array_equal(x, whole[:, 2 * member : 2 * member + 2])
    np.testing.assert_equal(back, inputs)


@every_library
@pytest.mark.parametrize("root", [0, 2])
def test_broadcast_copies_the_roots_value(xp, root):
    inputs = shards([3, 1, 2], (2,))

    for result in run(xp, "broadcast", inputs, [3, 1, 2], root=root):
        np.testing.assert_equal(result, inputs[root])


GLUE = [merge, weigh, normalise, delta, add, repeat_heads, seen, widen, sink, sink_gradient]


@pytest.mark.parametrize("op", GLUE, ids=lambda op: op.__name__)
def test_the_glue_keeps_to_the_array_api(op):
    out, lse = states(1, blind=0)
    arrays, params = {
        merge: ((out, lse, out + 1, lse + 1), {}),
        weigh: ((out, lse, lse + 1), {}),
        normalise: ((out, np.exp(lse), lse), {}),
        delta: ((out, out), {}),
        add: ((out, out), {}),
        repeat_heads: ((out,), {"times": 3}),
        seen: ((out, lse), {"keep": np.array([1, 4])}),
        widen: ((out,), {"source": np.array([-1, 0, 2, -1])}),
        sink: ((out, lse, lse[:1] * 0 + 2), {}),
        sink_gradient: ((lse[:1] * 0 + 2, lse, lse), {"dtype": "float64"}),
    }[op]

    named = {k: array_api_strict.asarray(x) if isinstance(x, np.ndarray) else x for k, x in params.items()}

    strict = op.meaning(array_api_strict, *map(array_api_strict.asarray, arrays), **named)

    assert_same(tuple(map(np.asarray, strict)), op.meaning(np, *arrays, **params))


# -- loading -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tp, dp", [(1, 1), (2, 1), (4, 1), (1, 3), (2, 3), (8, 1)])
def test_tp_splits_heads_and_dp_splits_the_batch(tp, dp):
    problem = small(heads=8, kv_heads=2, batch=3)
    mesh = Mesh(dp=dp, tp=tp)

    queries = [heads_of(problem, mesh, rank, 8).tolist() for rank in range(mesh.size)]
    kv = [heads_of(problem, mesh, rank, 2).tolist() for rank in range(mesh.size)]

    assert sorted(h for held in queries for h in held) == list(range(3 * 8))
    copies = max(1, tp // 2)
    assert sorted(h for held in kv for h in held) == sorted(list(range(3 * 2)) * copies)
    for q, k in zip(queries, kv, strict=True):  # each query head meets its own KV head: h // (H/Hkv), batch by batch
        assert [k[j * len(k) // len(q)] for j in range(len(q))] == [h // 8 * 2 + h % 8 // 4 for h in q]


def test_a_shard_is_cut_out_of_the_whole_array():
    problem = small()

    @spmd("ring")
    def program(me, problem):
        (i,), (p,) = me.coords, me.sizes
        q, k, _ = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
        return {"q": q, "k": k}

    mesh = Mesh(ring=3)
    schedule = program(problem, mesh)
    arrays = {
        "q": np.arange(37.0)[:, None, None] + np.zeros((1, 4, 8)),
        "k": np.arange(41.0)[:, None, None] + np.zeros((1, 2, 8)),
    }

    parts = [shard(schedule.ops[0], arrays, problem, mesh, rank)[:, 0, 0] for rank in range(3)]

    np.testing.assert_array_equal(np.concatenate(parts), np.arange(37))
    assert [len(shard(schedule.ops[1], arrays, problem, mesh, r)) for r in range(3)] == [13, 14, 14]


# -- costs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("name, phase, program", PROGRAMS, ids=[f"{n}-{p}" for n, p, _ in PROGRAMS])
def test_flop_are_those_of_the_visible_pairs_once(name, phase, program, mask):
    # forward: 2 (D + Dv) a pair and head; backward: 2 (3 D + 2 Dv)
    problem = small(phase=phase, mask=mask, head_dim_v=6, query_len=5 if phase == "decode" else 37)
    n, m = problem.query_len, problem.key_len
    pairs = n * m if mask == "full" else comb(m + 1, 2) - comb(m - n + 1, 2)
    a_pair = {"prefill": 2 * (8 + 6), "decode": 2 * (8 + 6), "train": 2 * (8 + 6) + 2 * (3 * 8 + 2 * 6)}[phase]

    for mesh in [*meshes(program), *meshes(program, sizes=(2,), tp=2)]:
        schedule = traced(program, problem, mesh)
        if schedule is None:
            continue
        flop = [np.broadcast_to(work(op, mesh.grid()).flop, mesh.shape) for op in schedule.ops if op.stream is None]
        assert np.sum(flop) == pairs * 4 * a_pair


def test_glue_reads_its_inputs_and_writes_its_outputs_once():
    problem = Attention(4, 2, 8, 48, 48, head_dim_v=6, state_dtype="float32")
    schedule = dict((n, p) for n, phase, p in PROGRAMS if phase != "train")["ring"](problem, Mesh(ring=4))
    state = 12 * 4 * 6 * 4 + 12 * 4 * 4

    (one, *_) = [op for op in schedule.ops if op.kind == "merge"]

    assert work(one, schedule.mesh.grid()).nbytes == 3 * state
    assert work(one, schedule.mesh.grid()).flop == 0


def test_a_latent_tensor_that_is_both_keys_and_values_is_read_once():
    problem = small(kv_heads=1, head_dim_v=6, shared_kv=True)
    schedule = algorithms.find("ring")["prefill"](problem, Mesh(ring=1))
    (op,) = (op for op in schedule.ops if op.kind == "attend")

    q, latent, out, lse = 37 * 4 * 8 * 2, 41 * 1 * 8 * 2, 37 * 4 * 6 * 4, 37 * 4 * 4
    assert work(op, schedule.mesh.grid()).nbytes == q + latent + out + lse
