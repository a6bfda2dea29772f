"""Laws of buffers, of the rows and heads of results, and the fingerprints that they are told by."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import algorithms
from algorithms.ir import Attention, Mesh, Partial, spmd
from algorithms.ir.laws import Laws, check
from algorithms.ir.order import overwrites, steps
from algorithms.ir.schedule import per_rank
from algorithms.ir.tokens import Runs
from algorithms.ops.all_gather import all_gather
from algorithms.ops.all_reduce import all_reduce
from algorithms.ops.all_to_all import split_heads
from algorithms.ops.attend import attend
from algorithms.ops.broadcast import broadcast
from algorithms.ops.load import load, load_keys, load_queries
from algorithms.ops.reduce_scatter import reduce_scatter
from algorithms.ops.repeat_heads import repeat_heads
from tests.algorithms.test_laws_whole import backward, gradients
from tests.algorithms.tracing import P, breaks, late, ring_of, small, tour

# -- S9: buffers ---------------------------------------------------------------------------------------------


def test_s9_a_block_is_read_before_its_buffer_is_used_again():
    with breaks("S9", "op 7 attend reads a block whose buffer op 5 reuses.*give the permute more than buffers=2"):
        ring_of(late(2))
    ring_of(late(3))


def test_s9_a_block_is_not_received_where_it_is_sent_from():
    with breaks("S9", "op 7 permute reads a block whose buffer op 7 reuses.*more than buffers=1"):
        ring_of(tour((1, 1, 1), buffers=1))
    ring_of(tour((1,), buffers=1), p=2)


def test_s9_the_order_refuses_it_too():
    @spmd("ring")
    def program(me, problem):
        (i,), (p,) = me.coords, me.sizes
        q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
        return tour((1,) * (p - 1), buffers=1)(q, k, v, i, p, me)

    with breaks("S9"):
        steps(program(small(), Mesh(ring=P)))


@pytest.mark.parametrize("buffers", [0, -1])
def test_s9_a_chain_owns_a_buffer(buffers):
    with breaks("S9", f"owns at least 1 buffer, got {buffers}"):
        ring_of(tour((1,), buffers=buffers))


def test_s9_a_second_tour_uses_the_buffers_of_the_first():
    def body(q, k, v, i, p, me):
        first = tour((1, 1, 1))(q, k, v, i, p, me)
        return Partial(first.out, tour((1, 1, 1))(q, k, v, i, p, me).lse)

    edges = overwrites(ring_of(body))

    assert len(edges) == 4  # six blocks received, the first two into fresh buffers


# -- S10, S11: rows of the problem ---------------------------------------------------------------------------


def test_s10_the_ranks_results_are_every_row_once():
    def wrong(me, problem):
        (i,), (p,) = me.coords, me.sizes
        q, k, v = load(me, problem, problem.queries(p)[i // 2 * 2], problem.keys(1)[0])
        return attend(q, k, v)

    with breaks("S10", r"the ranks' rows of result out are not every row once"):
        check(spmd("ring")(wrong)(small(), Mesh(ring=P)))


@pytest.mark.parametrize(
    "results, message",
    [
        (lambda part: None, "returns the state .*: got None"),
        (lambda part: part.out, "returns the state .*: got Value"),
        (lambda part: {}, "returns the state .*: got dict"),
        (lambda part: {"out": 3}, "result out is what an op returned: got int"),
        (lambda part: Partial(part.out, None), "result lse is what an op returned: got None"),
        (lambda part: {"output": part.out}, "no result 'output': expected one of out, lse, .*; nearest is out"),
        (lambda part: {"out": part.out}, "prefill has results out, lse: no lse"),
    ],
)
def test_s10_a_program_returns_the_whole_state_under_its_names(results, message):
    with breaks("S10", message):
        ring_of(lambda q, k, v, i, p, me: results(tour((1, 1, 1))(q, k, v, i, p, me)))


def test_s2_a_value_of_another_tracing_is_not_there():
    kept = []

    def body(q, k, v, i, p, me):
        kept.append((q, k, v))
        return tour((1, 1, 1))(*kept[0], i, p, me)

    ring_of(body)
    with breaks("S2", "before it is written"):
        ring_of(body)


def test_gradients_one_rank_away_from_home_are_still_every_row():
    # They lie one rank too far, which is where they lie, not what they are: the tokens say so.
    schedule = backward(lambda q, k, v, do, part, d, p: gradients(q, k, v, do, part.lse, d, p - 1, home=False))

    assert str(schedule.results["dk"].tokens) != str(schedule.ops[1].outputs[0].tokens)


def by_heads(q, k, v, i, p, me):
    return attend(*split_heads(q, *repeat_heads(k, v, times=2), over="ring"))


def test_results_may_be_dealt_by_heads():
    # Every rank has all 37 rows of one of the 4 heads; out and lse need not be dealt alike.
    ring_of(by_heads)
    whole = {"over": "ring", "by": "heads"}
    schedule = ring_of(lambda *a: {"out": by_heads(*a).out, "lse": all_gather(by_heads(*a).lse, **whole)})

    assert per_rank(schedule.results["out"].heads, schedule.mesh).tolist() == [0, 1, 2, 3]
    assert per_rank(schedule.results["lse"].heads, schedule.mesh).tolist() == [0] * 4


def test_s10_one_head_on_every_rank_is_not_all_of_them():
    def wrong(q, k, v, i, p, me):
        return Partial(*broadcast(*by_heads(q, k, v, i, p, me), over="ring", root=2))

    with breaks("S10", r"rows and heads of result out are not every row once: .*, 1 heads from 2 on"):
        ring_of(wrong)


def test_s10_half_of_the_heads_on_every_rank_once():
    # reduced by heads over two of the four ranks: each head lies on two ranks, and not on all
    @spmd("node", "local")
    def program(me, problem):
        (n, i), (nodes, p) = me.coords, me.sizes
        q, k, v = load(me, problem, problem.queries(1)[0], problem.keys(nodes * p)[n * p + i])
        mine = reduce_scatter(attend(q, k, v), over="local", op="merge", by="heads")
        return all_reduce(mine, over="node", op="merge")

    with breaks("S10", "rows and heads of result out"):
        check(program(small(), Mesh(node=2, local=2)))


def test_s10_a_row_has_the_width_of_the_problem():
    with breaks("S10", r"a row of result out has heads of the rank's job, \(4, 8\) in all, got \(8, 8\)"):
        ring_of(lambda q, k, v, i, p, me: Partial(*repeat_heads(*tour((1,) * 3)(q, k, v, i, p, me), times=2)))


@pytest.mark.parametrize("number, shard", [(lambda i: i + 1, "4"), (lambda i: i - 1, "-1"), (lambda i: i * i, "4")])
def test_s11_a_rank_loads_a_shard_that_there_is(number, shard):
    @spmd("ring")
    def program(me, problem):
        (i,), (p,) = me.coords, me.sizes
        return attend(*load(me, problem, problem.queries(p)[i], problem.keys(p)[number(i)]))

    with breaks("S11", rf"loads shard {shard} of k: shards are 0\.\.3"):
        program(small(), Mesh(ring=P))


# -- fingerprints --------------------------------------------------------------------------------------------

RUNS = st.tuples(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=4), st.integers(1, 5)
).map(lambda drawn: Runs(*(np.array(x) for x in zip(*drawn[0], strict=True)), drawn[1]))


@given(RUNS, RUNS)
def test_fingerprints_are_equal_when_the_tokens_are_and_differ_when_they_differ(a, b):
    laws = Laws(Mesh())
    same = sorted(a.positions()) == sorted(b.positions())

    assert bool((laws.of_runs(a) == laws.of_runs(b)).all()) == same


@given(RUNS)
def test_a_fingerprint_is_the_sum_over_its_tokens(runs):
    laws = Laws(Mesh())
    each = [laws.of_runs(Runs(np.array([x]), np.array([1]), 1)) for x in runs.positions()]

    np.testing.assert_array_equal(laws.of_runs(runs), sum(each, np.zeros(2, np.int64)) % [2**31 - 1, 2**31 - 19])


def test_a_long_run_of_tokens_is_told_from_its_neighbours():
    laws, n = Laws(Mesh()), 1 << 24
    prints = {tuple(laws.of_runs(Runs(np.array([s]), np.array([n + d]), 1))) for s in range(3) for d in range(3)}

    assert len(prints) == 9


def test_the_problem_that_the_laws_are_held_to_may_have_more_keys_than_queries():
    check(algorithms.find("ring")["prefill"](Attention(4, 2, 8, 5, 1000, mask="causal"), Mesh(ring=7)))


def test_s11_a_part_of_the_heads_that_there_is():
    @spmd("ring", phase="decode")
    def program(me, problem):
        (i,), (p,) = me.coords, me.sizes
        k, v = load_keys(me, problem, problem.keys(p)[i], part=i + 1, parts=p)
        return attend(load_queries(me, problem, problem.queries(1)[0], heads="ring"), k, v)

    with breaks("S11", r"rank 3 loads a part of k that is none of 0\.\.3"):
        program(small("decode", kv_heads=4), Mesh(ring=4))
