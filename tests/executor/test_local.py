"""All ranks in one process: every algorithm equals dense attention, and moves and holds what the schedule says."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.ir import Attention, Mesh
from algorithms.ir.order import peak_bytes
from algorithms.ring import ring_attention, ring_attention_train
from algorithms.ways.transfers import sent_bytes
from executor import local
from executor.arrays import random_inputs
from tests.algorithms.tracing import traced
from tests.executor.drawn import PROGRAMS, chosen_ways, judged, schedules
from tests.nightly import MORE

DOUBLE = {"dtype": "float64", "state_dtype": "float64", "grad_dtype": "float64"}
KERNELS = st.sampled_from(["numpy", "numba", "dense"])


def problem(**sizes):
    return Attention(**{"heads": 4, "kv_heads": 2, "head_dim": 8, "query_len": 32, "key_len": 32, **DOUBLE, **sizes})


@settings(max_examples=200 * MORE)
@given(schedules(), KERNELS, st.integers(0, 2**20))
def test_any_algorithm_equals_dense_attention_and_holds_the_bytes_of_the_fixed_order(schedule, kernel, seed):
    ran, verdict = judged(schedule, local.run, seed, kernel=kernel)

    assert verdict.share <= 1, verdict
    assert ran.peak.tolist() == peak_bytes(schedule).tolist()


@settings(max_examples=100 * MORE)
@given(schedules(largest=24), chosen_ways())
def test_any_way_of_its_collectives_is_as_exact_and_sends_the_bytes_of_the_schedule(schedule, ways):
    ran, verdict = judged(schedule, local.run, kernel="numpy", ways=ways)

    assert verdict.share <= 1, verdict
    assert ran.sent.tolist() == [sent_bytes(op, schedule.mesh, ways).tolist() for op in schedule.ops]


@pytest.mark.parametrize("key", sorted(PROGRAMS), ids=" ".join)
def test_more_ranks_than_tokens_leave_empty_shards_and_an_exact_result(key):
    program, sizes = PROGRAMS[key], {1: (16,), 2: (4, 4), 3: (4, 2, 2)}
    mesh = Mesh(**dict(zip(program.axes, sizes[len(program.axes)], strict=True)))
    few = problem(heads=16, kv_heads=16, query_len=3, key_len=3, mask="causal", phase=key[1])

    _, verdict = judged(program(few, mesh), local.run)

    assert verdict.share <= 1, verdict


def test_a_rank_whose_queries_see_no_key_has_out_0_and_lse_minus_infinity_until_others_are_merged():
    # contiguous, causal: rank 0's queries see none of rank 1's keys, and its partial over them is the identity
    whole = problem(mask="causal", layout="contiguous")
    schedule = ring_attention(whole, Mesh(ring=2))
    second = [op for op in schedule.ops if op.kind == "attend"][1]
    shown = type(schedule)(
        "second", schedule.mesh, whole, schedule.ops, dict(zip(("out", "lse"), second.outputs, strict=True))
    )

    ran = local.run(shown, random_inputs(whole))

    assert not ran.results["out"][0].any()
    assert np.isneginf(ran.results["lse"][0]).all()
    assert np.isfinite(ran.results["lse"][1]).all()


@pytest.mark.parametrize("p", [1, 2, 3, 5, 16])
def test_a_ring_holds_at_most_two_received_blocks_at_any_time(p):
    # attend 0 |attend 1 |attend 2 |
    # hop 1    |hop 2    |          block 1 is being read while block 2 comes, and block 3 waits for its place
    ran = local.run(ring_attention(problem(), Mesh(ring=p)), random_inputs(problem()))

    assert ran.received == min(2, p - 1)


def test_gradients_of_the_copies_of_a_kv_head_are_summed_over_tp():
    train = problem(heads=8, kv_heads=2, phase="train", mask="causal", query_len=13, key_len=13)

    _, verdict = judged(ring_attention_train(train, Mesh(ring=2, tp=8)), local.run)

    assert verdict.share <= 1, verdict


def uneven(key):
    """A schedule on two ranks an axis, or on three two are not enough, with cached keys if it can have any."""
    mesh = Mesh(**dict.fromkeys(PROGRAMS[key].axes, 3 if key[0] == "tasp" else 2))
    some = problem(phase=key[1], mask="causal", query_len=7, key_len=30)
    return traced(PROGRAMS[key], some, mesh) or PROGRAMS[key](replace(some, query_len=30), mesh)


WHOLE = {"tree": {"cp": 6}, "tree_packed": {"cp": 6}, "tree_doubling": {"cp": 7}, "gather_q": {"cp": 4}}


@pytest.mark.parametrize("name, axes", [*WHOLE.items(), ("tree_two_level", {"node": 3, "local": 2})])
def test_ranks_that_go_on_with_one_result_have_the_same_bits_of_it(name, axes):
    # or they would draw different tokens
    schedule = PROGRAMS[name, "decode"](problem(phase="decode", query_len=2, key_len=45, heads=8), Mesh(**axes))

    for way in ("ring", "doubling"):
        ways = dict.fromkeys(("all_gather", "reduce_scatter", "all_reduce"), way)
        (first, *others) = local.run(schedule, random_inputs(schedule.problem), ways=ways).results["lse"]
        assert all((first == other).all() for other in others)


@pytest.mark.parametrize("key", sorted(PROGRAMS), ids=" ".join)
def test_two_runs_give_the_same_bits(key):
    schedule = uneven(key)
    arrays = random_inputs(schedule.problem)

    first, second = (local.run(schedule, arrays, ways={}).results for _ in range(2))

    for name, ranks in first.items():
        assert all((a == b).all() for a, b in zip(ranks, second[name], strict=True))


@pytest.mark.parametrize("key", sorted(PROGRAMS), ids=" ".join)
def test_the_same_body_runs_on_any_array_of_the_standard(key):
    strict = pytest.importorskip("array_api_strict")
    schedule = uneven(key)
    arrays = random_inputs(schedule.problem)

    plain = local.run(schedule, arrays, kernel="numpy", ways={}).results
    other = local.run(schedule, arrays, xp=strict, kernel="numpy", ways={}).results

    for name, ranks in plain.items():
        for a, b in zip(ranks, other[name], strict=True):
            assert type(b) is type(strict.asarray(a))
            np.testing.assert_array_equal(a, np.asarray(b))
