"""Laws that only a whole schedule can show: every key met once, blocks within their buffers, every row a result."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ir import Mesh, Partial
from algorithms.ir.laws import check
from algorithms.ir.order import steps
from algorithms.ops.add import add
from algorithms.ops.all_gather import all_gather
from algorithms.ops.attend import attend
from algorithms.ops.attend_backward import attend_backward
from algorithms.ops.delta import delta
from algorithms.ops.load import load_gradient
from algorithms.ops.permute import permute
from algorithms.ops.reduce_scatter import merge_visits, reduce_scatter
from algorithms.ops.take_heads import take_heads
from tests.algorithms.tracing import PROGRAMS, P, breaks, meshes, ring_of, serves, small, tour, traced

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
