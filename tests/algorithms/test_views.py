"""Rows on some ranks, alternatives, parts: what is a view costs nothing, and what is joined is where it was."""

import numpy as np
import pytest

from algorithms.ir import Partial
from algorithms.ir.alternatives import Only
from algorithms.ir.order import lifetimes, overwrites, peak_bytes, steps
from algorithms.ir.parts import in_parts
from algorithms.ir.schedule import per_rank
from algorithms.ops import is_free, is_view, module, work
from algorithms.ops.add import add
from algorithms.ops.attend import attend
from algorithms.ops.attend_backward import attend_backward
from algorithms.ops.cut_rows import cut_rows
from algorithms.ops.delta import delta
from algorithms.ops.join import join
from algorithms.ops.load import load, load_gradient
from algorithms.ops.merge import merge
from algorithms.ops.only import only
from algorithms.ops.permute import permute
from algorithms.ways.transfers import sent_bytes, transfers
from tests.algorithms.tracing import P, breaks, ring_of, tour


def whole(q, k, v, i, p, me):
    """A right result, for programs that are looked at for something else."""
    return tour((1,) * (p - 1))(q, k, v, i, p, me)


def ops(schedule, kind):
    return [op for op in schedule.ops if op.kind == kind]


def rows(value, schedule):
    return per_rank(value.type.rows, schedule.mesh).tolist()


# -- only and join -------------------------------------------------------------------------------------------


def test_rows_are_kept_where_the_condition_holds():
    def body(q, k, v, i, p, me):
        some = only(q, k, k, where=i >= 2)
        assert some[1] is some[2]
        assert only(q, where=i >= 0)[0] is q
        return whole(q, k, v, i, p, me)

    schedule = ring_of(body, layout="contiguous")

    of_q, of_k = ops(schedule, "only")
    assert rows(of_q.outputs[0], schedule) == [0, 0, 9, 10]
    assert rows(of_k.outputs[0], schedule) == [0, 0, 10, 11]


def test_nothing_is_sent_where_there_are_no_rows():
    def body(q, k, v, i, p, me):
        permute(*only(q, where=i >= 2), *only(k, where=i == 3), over="ring", shift=1)
        return whole(q, k, v, i, p, me)

    schedule = ring_of(body, layout="contiguous", query_len=41)
    op = ops(schedule, "permute")[0]

    of_q, of_k = 10 * 4 * 8 * 2, 11 * 2 * 8 * 2
    (transfer,) = transfers(op, schedule.mesh)
    assert transfer.dst.tolist() == [-1, -1, 3, 0]
    assert sent_bytes(op, schedule.mesh).tolist() == [0, 0, of_q, of_q // 10 * 11 + of_k]


def test_alternatives_are_joined_as_a_view_and_are_one_shard():
    def body(q, k, v, i, p, me):
        own = only(k, v, where=i >= 1)
        came = permute(*only(k, v, where=i >= 3), over="ring", shift=1)
        ks, vs = join(own, came)
        assert ks.tokens is vs.tokens
        attend(q, ks, vs)
        return whole(q, k, v, i, p, me)

    schedule = ring_of(body, layout="contiguous")

    assert len(ops(schedule, "either")) == 2
    assert not ops(schedule, "join")
    assert (
        str(ops(schedule, "either")[0].outputs[0].tokens)
        == "contiguous 41/4[where((1 <= ring), ring, ((ring + 3) % 4))]"
    )


def test_several_joined_are_a_copy_where_there_are_several():
    def body(q, k, v, i, p, me):
        attend(q, *join((k, v), only(*permute(k, v, over="ring", shift=1), where=i < 2)))
        return whole(q, k, v, i, p, me)

    schedule = ring_of(body, layout="contiguous")
    one, _ = ops(schedule, "join")

    together = 21 * 2 * 8 * 2  # 10 and 11 rows, read and written
    assert rows(one.outputs[0], schedule) == [21, 20, 10, 11]
    assert np.broadcast_to(work(one, schedule.mesh.grid()).nbytes, P).tolist() == [
        2 * together,
        2 * together // 21 * 20,
        0,
        0,
    ]


def test_one_value_joined_is_itself():
    def body(q, k, v, i, p, me):
        assert join(q) is q
        assert join((k, v)) == (k, v)
        return whole(q, k, v, i, p, me)

    ring_of(body)


def test_s6_joined_rows_are_of_one_type():
    with breaks("S6", "join puts rows of one type and the same heads after each other"):
        ring_of(lambda q, k, v, i, p, me: attend(join(q, k), k, v))
    with breaks("S6", "join puts rows of one type"):
        ring_of(lambda q, k, v, i, p, me: attend(q, join(k, v), v), head_dim_v=6)


# -- the second operand of merge and add ---------------------------------------------------------------------


def test_a_state_of_some_ranks_rows_is_merged_there():
    def body(q, k, v, i, p, me):
        part = attend(q, k, v)
        for step in range(1, p):
            k, v = permute(k, v, over="ring", shift=1)
            tile = attend(q, k, v)
            for part_of in (i < step, i >= step):  # in two goes
                part = merge(part, Partial(*only(*tile, where=part_of)))
        return part

    schedule = ring_of(body)

    first = ops(schedule, "merge")[0]
    state = 4 * (8 + 1) * 4
    n = rows(first.inputs[0], schedule)
    assert work(first, schedule.mesh.grid()).nbytes.tolist() == [3 * n[0] * state, 0, 0, 0]


def test_s8_a_state_that_is_merged_on_some_ranks_only_is_missed_by_the_others():
    def body(q, k, v, i, p, me):
        part = attend(q, k, v)
        for step in range(1, p):
            k, v = permute(k, v, over="ring", shift=1)
            part = merge(part, Partial(*only(*attend(q, k, v), where=i >= step)))
        return part

    with breaks("S8", r"result out of rank 0 has not met every key exactly once \(3 of 4 ranks\)"):
        ring_of(body)


def test_s6_rows_of_other_tokens_are_not_merged_though_they_are_on_some_ranks_only():
    def body(q, k, v, i, p, me):
        tile = permute(*only(*attend(q, k, v), where=i < 2), over="ring", shift=1)
        return merge(attend(q, k, v), Partial(*tile))

    with breaks("S6", "merge joins rows of different tokens"):
        ring_of(body)
    with breaks("S6", "add joins rows of different tokens"):
        ring_of(lambda q, k, v, i, p, me: add([q], [permute(*only(q, where=i < 2), over="ring", shift=1)]))


def test_where_the_second_has_no_rows_the_first_stays():
    full, none = np.ones((3, 2, 4)), np.ones((0, 2, 4))
    lse, no_lse = full[..., 0], none[..., 0]

    assert module("add").meaning(np, full, none)[0] is full
    assert module("merge").meaning(np, full, lse, none, no_lse) == (full, lse)
    assert module("add").meaning(np, none, none)[0].shape == (0, 2, 4)
    assert module("merge").meaning(np, none, no_lse, none, no_lse)[0].shape == (0, 2, 4)


# -- parts ---------------------------------------------------------------------------------------------------


def in_three(q, k, v, i, p, me):
    """Load keys in three parts, and send each on along places of its own."""
    q, k, v = load(me, me.problem, q.tokens, in_parts(me.problem.keys(p)[i], 3))
    part, blocks = attend(q, k, v), cut_rows(k, v, parts=3)
    for _ in range(1, p):
        blocks = [
            permute(*block, over="ring", shift=1, along=along, lane=c)
            for c, (block, along) in enumerate(zip(blocks, ((0, 1, 2, 3), (0, 3, 2, 1), (0, 2, 1, 3)), strict=True))
        ]
        part = merge(part, attend(q, *join(*blocks)))
    return part


def test_parts_of_a_shard_may_travel_apart_and_are_met_together():
    schedule = ring_of(in_three, layout="zigzag")

    assert [len(op.outputs) for op in ops(schedule, "cut_rows")] == [3, 3]
    assert {op.lane for op in ops(schedule, "permute")} == {0, 1, 2}


def test_s5_rows_are_cut_into_what_they_were_put_together_from():
    with breaks("S5", "cut_rows into 3: %1 is of 1 parts"):
        ring_of(lambda q, k, v, i, p, me: cut_rows(k, parts=3))


def test_s8_rows_that_have_met_different_keys_are_not_joined():
    def body(q, k, v, i, p, me):
        near = attend(q, k, v)
        far = attend(q, *permute(k, v, over="ring", shift=1))
        return Partial(*join(tuple(only(*near, where=i < 2)), tuple(far)))

    with breaks("S8", "join joins rows that have met different keys"):
        ring_of(body)


@pytest.mark.parametrize("along", [(0, 1, 2), (0, 1, 2, 2), (0, 1, 2, 3, 4)])
def test_s4_a_permute_goes_along_every_place_once(along):
    with breaks("S4", "permute shifts along 4 places, each once: got"):
        ring_of(lambda q, k, v, i, p, me: permute(k, over="ring", shift=1, along=along))


def test_s4_a_permute_to_a_place_goes_along_none():
    with breaks("S4", "permute shifts along 4 places, each once: got"):
        ring_of(lambda q, k, v, i, p, me: permute(k, over="ring", to=i, along=(0, 1, 2, 3)))


# -- views ---------------------------------------------------------------------------------------------------


def test_views_take_no_time():
    schedule = ring_of(in_three)

    assert {op.kind for op in schedule.ops if is_view(op)} == {"cut_rows"}
    assert {op.kind for op in schedule.ops if is_free(op)} == {"cut_rows", "load"}


def halves(q, k, v, i, p, me):
    """Attend to what comes through a view of it."""
    part = attend(q, k, v)
    for _ in range(1, p):
        k, v = permute(k, v, over="ring", shift=1)
        for some in (i < 2, i >= 2):
            part = merge(part, attend(q, *only(k, v, where=some)))
    return part


def test_what_a_view_shows_lives_until_the_views_last_reader():
    schedule = ring_of(halves)
    received, live = {v.id for op in ops(schedule, "permute") for v in op.outputs}, set()

    for (_, op), born, dead in lifetimes(schedule):
        live |= {v.id for v in born}
        shown = {v.id for x in op.inputs for op in ops(schedule, "only") if x in op.outputs for v in op.inputs}
        assert shown & received <= live
        live -= {v.id for v in dead}
    assert not live & received


def test_memory_counts_what_is_shown_and_not_the_view():
    assert peak_bytes(ring_of(halves)).tolist() == peak_bytes(ring_of(tour((1, 1, 1)))).tolist()


def test_a_receive_waits_for_who_reads_the_block_before_through_a_view():
    schedule = ring_of(halves)
    reading = {op.id for op in schedule.ops if op.kind == "attend"}

    edges = overwrites(schedule)

    assert [len({reader.id for reader in before} & reading) for before in edges.values()] == [2]


def test_s9_views_of_one_value_are_one_chain():
    def late(q, k, v, i, p, me):
        blocks = [permute(*only(k, v, where=i < p - t), over="ring", shift=t) for t in range(1, p)]
        part = attend(q, k, v)
        for block in blocks:
            part = merge(part, attend(q, *block))
        return part

    with breaks("S9", "attend reads a block whose buffer op .* reuses"):
        ring_of(late)


def test_views_are_shown_as_soon_as_what_they_show_is_there():
    def body(q, k, v, i, p, me):
        attend(q, k, v)
        permute(*only(k, where=i < 2), over="ring", shift=1)
        return whole(q, k, v, i, p, me)

    order = [(step.action, step.op.kind) for step in steps(ring_of(body)) if step.op.kind != "load"]

    assert order[:2] == [("run", "only"), ("post", "permute")]  # before the attend in front of them


def test_gradients_of_parts_go_home_along_their_own_ways():
    def body(q, k, v, i, p, me):
        q, k, v = load(me, me.problem, q.tokens, in_parts(me.problem.keys(p)[i], 2))
        part = whole(q, k, v, i, p, me)
        do = load_gradient(me, me.problem, q.tokens)
        rest = do, part.lse, delta(do, part.out)
        dq, dk, dv = attend_backward(q, k, v, *rest)
        blocks, sums = cut_rows(k, v, parts=2), cut_rows(dk, dv, parts=2)

        def moved(pairs):
            return [
                permute(*x, over="ring", shift=s, lane=c) for c, (x, s) in enumerate(zip(pairs, (1, -1), strict=True))
            ]

        for _ in range(1, p):
            blocks, sums = moved(blocks), moved(sums)
            tile = attend_backward(q, *join(*blocks), *rest)
            (dq,) = add([dq], [tile.dq])
            cut = cut_rows(tile.dk, tile.dv, parts=2)
            sums = [add(one, more) for one, more in zip(sums, cut, strict=True)]
        dk, dv = join(*moved(sums))
        return {"dq": dq, "dk": dk, "dv": dv}

    schedule = ring_of(body, phase="train")

    assert not isinstance(schedule.results["dk"].tokens, Only)
