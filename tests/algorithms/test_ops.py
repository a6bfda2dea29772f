"""What the ops mean on arrays, and what they cost."""

from math import comb

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import algorithms
from algorithms.ir import Attention, Mesh, spmd
from algorithms.ops import (
    add,
    delta,
    merge,
    normalise,
    repeat_heads,
    seen,
    share,
    sink,
    sink_gradient,
    weigh,
    widen,
    work,
)
from algorithms.ops.collective import meaning
from algorithms.ops.load import heads_of, load, shard
from tests.algorithms.operands import DV, H, assert_same, merged, states
from tests.algorithms.tracing import PROGRAMS, meshes, small, traced


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
@pytest.mark.parametrize("by, put", [("heads", np.concatenate), ("members", np.stack)])
@given(p=st.integers(1, 5), n=st.integers(0, 4))
def test_all_gather_by_heads_or_members_keeps_the_rows(xp, by, put, p, n):
    inputs = shards([n] * p, (2, 3), (2,))
    whole = [put(same, axis=1 if by == "heads" else -1) for same in zip(*inputs, strict=True)]

    for result in run(xp, "all_gather", inputs, [n] * p, by=by):
        np.testing.assert_equal(list(result), whole)


@every_library
@pytest.mark.parametrize("op, reduce", [("sum", np.sum), ("max", np.max)])
@given(p=st.integers(1, 5), n=st.integers(0, 4))
def test_reduce_scatter_by_heads_reduces_and_each_keeps_its_heads(xp, op, reduce, p, n):
    inputs = shards([n] * p, (2 * p, 3))
    whole = reduce(np.stack([x for (x,) in inputs]), axis=0)

    results = run(xp, "reduce_scatter", inputs, [n] * p, op=op, by="heads")

    assert {x.shape for (x,) in results} == {(n, 2, 3)}
    np.testing.assert_array_equal(np.concatenate([x for (x,) in results], axis=1), whole)


@every_library
@pytest.mark.parametrize("p", [1, 2, 3, 5])  # 7 rows of 4 heads are no multiple of 3 or 5
def test_all_reduce_merges_states_by_row_and_head(xp, p):
    parts = [states(seed, blind=seed) for seed in range(p)]
    whole = parts[0]
    for part in parts[1:]:
        whole = merged(whole, part)

    for out, lse in run(xp, "all_reduce", parts, [7] * p, op="merge"):
        assert_same((out.reshape(7, H, DV), lse.reshape(7, H)), whole)


def test_the_shares_of_all_ranks_add_up_to_their_merge():
    parts = [states(seed, blind=seed) for seed in (1, 2, 3)]
    out, lse = merged(merged(parts[0], parts[1]), parts[2])
    lses = np.stack([part[1] for part in parts], axis=-1)

    shares = [share.meaning(np, *part, lses) for part in parts]

    assert_same((sum(x for x, _ in shares), shares[0][1]), (out, lse))
    assert np.isneginf(shares[0][1][0]).all()
    assert not shares[0][0][0].any()  # nobody saw a key


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


GLUE = [merge, weigh, normalise, share, delta, add, repeat_heads, seen, widen, sink, sink_gradient]


@pytest.mark.parametrize("op", GLUE, ids=lambda op: op.__name__)
def test_the_glue_keeps_to_the_array_api(op):
    out, lse = states(1, blind=0)
    arrays, params = {
        merge: ((out, lse, out + 1, lse + 1), {}),
        weigh: ((out, lse, lse + 1), {}),
        normalise: ((out, np.exp(lse), lse), {}),
        share: ((out, lse, np.stack([lse, lse + 1], axis=-1)), {}),
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
        times = mesh.axes["cp"] if name == "ring_pass_kv" else 1  # there every rank does all of it
        assert np.sum(flop) == pairs * 4 * a_pair * times


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
