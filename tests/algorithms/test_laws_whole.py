"""Laws that only a whole schedule can show: every key met once, blocks within their buffers, every row a result."""

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
from algorithms.ops.add import add
from algorithms.ops.all_gather import all_gather
from algorithms.ops.all_reduce import all_reduce
from algorithms.ops.all_to_all import split_heads
from algorithms.ops.attend import attend
from algorithms.ops.attend_backward import attend_backward
from algorithms.ops.broadcast import broadcast
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient, load_keys, load_queries
from algorithms.ops.permute import permute
from algorithms.ops.reduce_scatter import merge_visits, reduce_scatter
from algorithms.ops.repeat_heads import repeat_heads
from algorithms.ops.take_heads import take_heads
from tests.algorithms.tracing import PROGRAMS, P, breaks, late, meshes, ring_of, serves, small, tour, traced

# -- the right programs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["contiguous", "zigzag", "striped"])
@pytest.mark.parametrize("name, phase, program", PROGRAMS, ids=[f"{n}-{p}" for n, p, _ in PROGRAMS])
def test_every_algorithm_keeps_the_laws(name, phase, program, layout):
    few = {}, {"query_len": 3, "key_len": 5}, {"query_len": 3, "key_len": 3}
    for mask in ("full", "causal"):
        for changes in (*few, {"kv_heads": 1, "shared_kv": True, "query_len": 41}, {"query_len": 1}):
            problem = small(phase=phase, mask=mask, layout=layout, batch=2, **changes)
            job = meshes(program, (1, 2), tp=2, dp=2)
            schedules = [s for mesh in [*meshes(program), *job] if (s := traced(program, problem, mesh))]
            assert bool(schedules) == serves(name, problem)
            for schedule in schedules:
                check(schedule)


SIZES = st.tuples(st.integers(1, 12), st.integers(1, 6), st.integers(1, 3))  # of a mesh's axes


@given(st.sampled_from(PROGRAMS), SIZES, st.integers(1, 99), st.integers(0, 99))
def test_every_algorithm_keeps_the_laws_on_any_lengths(named, sizes, n, cached):
    _, phase, program = named
    mesh = Mesh(**dict(zip(program.axes, sizes, strict=False)) | dict.fromkeys(program.equal, sizes[-1]))

    schedule = traced(program, small(phase=phase, heads=12, query_len=n, key_len=n + cached), mesh)

    if schedule is not None:
        check(schedule)
        assert {s.op.id for s in steps(schedule)} == {op.id for op in schedule.ops}


# -- S8: every key exactly once ------------------------------------------------------------------------------


@pytest.mark.parametrize("shifts", [(1, 1, 1), (-1, -1, -1), (3, 3, 3), (1, 2, 3), (5, -3, 1)])
def test_a_tour_of_all_blocks_in_any_order_is_right(shifts):
    ring_of(tour(shifts))


@pytest.mark.parametrize(
    "shifts",
    [
        (2, 1, 1),  # starts with a double step: block 0 twice, block 1 never
        (1, 2, 1),
        (2, 2, 2),  # two blocks, twice each
        (1, 1),  # one too few
        (1, 1, 1, 1),  # one too many
        (1, 0, 1),
    ],
)
def test_s8_a_block_met_twice_or_never(shifts):
    with breaks("S8", r"result out of rank 0 has not met every key exactly once \(4 of 4 ranks\)"):
        ring_of(tour(shifts))


def test_s8_totals_would_not_do():
    # Every rank attends 4 equal blocks, 1 of them twice and another never: counts of keys are right.
    with breaks("S8"):
        ring_of(tour((1, 1, 0)), query_len=40, key_len=40)


def test_s8_a_result_that_has_met_nothing():
    with breaks("S8", "result out of rank 0 has not met every key"):
        ring_of(lambda q, k, v, i, p, me: {"out": attend(q, k, v).out, "lse": q})


def test_s8_a_reduction_of_tiles_that_overlap():
    # K and V gathered over the axis that is reduced: each member adds all keys once more.
    def wrong(q, k, v, i, p, me):
        part = attend(all_gather(q, over="ring"), *all_gather(k, v, over="ring"))
        return reduce_scatter(part, over="ring", op="merge", like=q)

    with breaks("S8"):
        ring_of(wrong)


def test_s8_rows_gathered_after_they_have_met_different_keys():
    with breaks("S8", "joins rows that have met different keys"):
        ring_of(lambda q, k, v, i, p, me: Partial(*all_gather(*attend(q, k, v), over="ring")))


def visiting(steps, home=lambda visits: visits, p=P):
    """Queries that go these steps, and the states that they leave merged where `home` says."""

    def body(q, k, v, i, p, me):
        mine, visits = q, [attend(q, k, v)]
        for step in steps:
            q = permute(q, over="ring", shift=step)
            visits.append(attend(q, k, v))
        return merge_visits(home(visits), over="ring", like=mine)

    return ring_of(body, p)


def test_states_left_at_every_rank_are_whole_at_home():
    visiting((1, 1, 1))
    visiting((), p=1)


@pytest.mark.parametrize(
    "steps, home, why",
    [
        ((1, 1), lambda v: v, "has 4 visits, got 3"),
        ((1, 2, 1), lambda v: v, "visit 2 is of the queries of the member 2 places before, .* holds contiguous"),
        ((-1, -1, -1), lambda v: v, "visit 1 is of the queries of the member 1 places before"),
        ((1, 1, 1), lambda v: [v[0], v[2], v[1], v[3]], "visit 1 is of"),
        ((1, 1, 1), lambda v: [v[0], v[1], v[2], Partial(v[3].out, v[1].lse)], "visit 3 is of"),
    ],
)
def test_s5_a_state_goes_home_to_its_own_queries(steps, home, why):
    with breaks("S5", why):
        visiting(steps, home)


def test_s8_a_visit_of_other_keys_than_the_ranks():
    def body(q, k, v, i, p, me):
        mine, visits = q, [attend(q, k, v)]
        for step in range(1, p):
            q = permute(q, over="ring", shift=1)
            if step == 2:
                k, v = permute(k, v, over="ring", shift=1)
            visits.append(attend(q, k, v))
        return merge_visits(visits, over="ring", like=mine)

    with breaks("S8", "result out of rank 0 has not met every key exactly once"):
        ring_of(body)


def backward(body, p=P):
    """Trace body(q, k, v, do, part, d, p) after a right forward pass."""

    def whole(q, k, v, i, p, me):
        part = tour((1,) * (p - 1))(q, k, v, i, p, me)
        do = load_gradient(me, me.problem, q.tokens)
        return body(q, k, v, do, part, delta(do, part.out), p)

    return ring_of(whole, p, phase="train")


def gradients(q, k, v, do, lse, d, hops, home=True):
    dq, dk, dv = attend_backward(q, k, v, do, lse, d)
    for _ in range(hops):
        k, v = permute(k, v, over="ring", shift=1)
        dk, dv = permute(dk, dv, over="ring", shift=1)
        dq, dk, dv = add((dq, dk, dv), attend_backward(q, k, v, do, lse, d))
    if home:
        dk, dv = permute(dk, dv, over="ring", shift=1)
    return {"dq": dq, "dk": dk, "dv": dv}


def test_the_backward_ring_is_right():
    backward(lambda q, k, v, do, part, d, p: gradients(q, k, v, do, part.lse, d, p - 1))


def test_s8_keys_whose_gradients_have_not_met_every_query():
    with breaks("S8", "result dk of rank 0 has not met every query exactly once"):
        backward(lambda q, k, v, do, part, d, p: {"dk": gradients(q, k, v, do, part.lse, d, p - 2)["dk"]})


def test_s8_queries_whose_gradients_have_not_met_every_key():
    with breaks("S8", "result dq of rank 0 has not met every key exactly once"):
        backward(lambda q, k, v, do, part, d, p: gradients(q, k, v, do, part.lse, d, p - 2))


def test_s8_a_backward_tile_needs_the_lse_of_the_whole_row():
    with breaks("S8", "lse of op .* has not met every key exactly once"):
        backward(lambda q, k, v, do, part, d, p: gradients(q, k, v, do, attend(q, k, v).lse, d, p - 1))


@pytest.mark.parametrize("which", ["do", "lse", "delta"])
def test_s6_what_is_said_of_queries_travels_with_them(which):
    def body(q, k, v, do, part, d, p):
        said = {"do": do, "lse": part.lse, "delta": d}
        said[which] = permute(said[which], over="ring", shift=1)
        return {"dq": attend_backward(q, k, v, said["do"], said["lse"], said["delta"]).dq}

    with breaks("S6", "attend_backward joins rows of different tokens: %0 holds"):
        backward(body)


def test_s6_gradients_are_of_the_heads_that_the_queries_have():
    def body(q, k, v, do, part, d, p):
        half = take_heads(do, first=2, count=2)
        return {"dq": delta(half, take_heads(part.out, first=0, count=2))}

    with breaks("S6", "delta joins different heads: .* has 2 from 2 on, .* has 2 from 0 on"):
        backward(body)


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
