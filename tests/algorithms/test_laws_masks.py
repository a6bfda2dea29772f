"""Law S8 under masks: what nobody sees may be left out, what somebody sees may not, and nothing is met twice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import algorithms.ir.seen as seen_module
from algorithms.ir import Attention, Mesh, spmd
from algorithms.ir.laws import check
from algorithms.ir.layout import KINDS
from algorithms.ir.mask import Mask, sees
from algorithms.ir.schedule import per_rank
from algorithms.ir.seen import Seen, covered, view, within
from algorithms.ir.tokens import Runs
from algorithms.ops.permute import permute
from algorithms.ops.seen import seen
from algorithms.ops.widen import widen
from algorithms.ring import ring_attention, ring_attention_train
from algorithms.ways.transfers import sent_bytes
from tests.algorithms.tracing import PROGRAMS, breaks, meshes, ring_of, serves, small, tour, traced

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=5).map(tuple)
MASKS = st.builds(lambda window, documents: Mask(True, window, documents), st.integers(0, 20), LENGTHS)


# -- every algorithm -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", KINDS)
@pytest.mark.parametrize("name, phase, program", PROGRAMS, ids=[f"{n}-{p}" for n, p, _ in PROGRAMS])
def test_every_algorithm_keeps_the_laws_under_every_mask(name, phase, program, layout):
    lengths = (11, 1, 20, 9)
    new = {"query_len": len(lengths) if phase == "decode" else 41}
    for mask in (Mask(True, 6), Mask(True, 0, lengths), Mask(False, 0, lengths), Mask(True, 6, lengths)):
        if layout == "documents" and not mask.documents:
            continue
        problem = small(phase=phase, mask=mask, layout=layout, softcap=2.0, alibi=True, sinks=True, **new)
        schedules = [s for mesh in meshes(program) if (s := traced(program, problem, mesh))]
        assert bool(schedules) == serves(name, problem)
        for schedule in schedules:
            check(schedule)


# -- what may be left out ------------------------------------------------------------------------------------


def near(mask, **changes):
    """A contiguous problem of four ranks with ten tokens each."""
    return {"mask": mask, "query_len": 40, "key_len": 40, **changes}


@pytest.mark.parametrize("window, hops", [(1, 0), (2, 1), (10, 1), (11, 1), (12, 2), (21, 2), (22, 3), (40, 3)])
def test_a_window_needs_the_blocks_that_it_reaches_and_no_others(window, hops):
    ring_of(tour((1,) * hops), **near(Mask(True, window)))
    if hops:
        with breaks("S8", "result out of rank . has not met every key exactly once"):
            ring_of(tour((1,) * (hops - 1)), **near(Mask(True, window)))


def test_documents_that_a_rank_has_whole_need_no_others():
    ring_of(tour(()), **near(Mask(True, 0, (10, 10, 5, 5, 10))))
    with breaks("S8", r"of rank 1 has not met every key exactly once \(1 of 4 ranks\)"):
        ring_of(tour(()), **near(Mask(True, 0, (9, 11, 10, 10))))


def test_what_is_seen_may_not_be_met_twice_though_something_else_is_left_out():
    # one hop is needed; the second brings block i - 1 once more
    with breaks("S8"):
        ring_of(tour((1, 0)), **near(Mask(True, 5)))


def test_what_nobody_sees_may_be_met_or_not():
    ring_of(tour((1, 1)), **near(Mask(True, 5)))


def test_a_full_mask_leaves_nothing_out():
    with breaks("S8"):
        ring_of(tour((1, 1)), **near("full"))


@given(MASKS, st.integers(1, 6), st.data())
def test_a_tour_is_right_if_and_only_if_no_visible_pair_is_lost(mask, p, data):
    n = sum(mask.documents)
    hops = data.draw(st.integers(0, p - 1))
    problem = {"mask": mask, "query_len": n, "key_len": n}
    at = [Attention(1, 1, 8, n, n, mask=mask).keys(p).runs(np.asarray(i)).positions() for i in range(p)]
    lost = any(sees(mask, at[i][:, None], at[(i - t) % p][None, :]).any() for i in range(p) for t in range(hops + 1, p))

    if lost:
        with breaks("S8"):
            ring_of(tour((1,) * hops), p, **problem)
    else:
        ring_of(tour((1,) * hops), p, **problem)


# -- seen ----------------------------------------------------------------------------------------------------


@given(MASKS, st.data())
def test_seen_keeps_the_keys_that_some_query_sees(mask, data):
    n = sum(mask.documents)

    def runs():
        starts = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3))
        return Runs(np.array(starts), np.array([data.draw(st.integers(0, n - s)) for s in starts]), 1)

    queries, keys = runs(), runs()

    kept = within(keys, view(mask, queries)).positions()

    rows = queries.positions()
    everything = keys.positions()
    assert kept.tolist() == [k for k in everything if sees(mask, rows, k).any()]


@pytest.mark.parametrize("few", [0, 10**9])
@given(mask=MASKS, data=st.data())
def test_what_is_covered_is_counted_however_it_is_looked_for(few, mask, data):
    n, ranks = sum(mask.documents), 3
    ends = [sorted(data.draw(st.lists(st.integers(0, n), min_size=8, max_size=8))) for _ in range(ranks)]
    keys = Runs(np.array(ends)[:, ::2], np.diff(np.array(ends), axis=1)[:, ::2], 1)  # some are empty
    starts = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=ranks * 2, max_size=ranks * 2))).reshape(
        ranks, 2
    )
    rows = Runs(starts, np.minimum(n - starts, 4), 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seen_module, "FEW", few)
        found = covered(keys, view(mask, rows))

    for rank in range(ranks):
        k = Runs(keys.start[rank], keys.count[rank], 1)
        q = Runs(rows.start[rank], rows.count[rank], 1).positions()
        assert found[rank] == sum(sees(mask, q, key).any() for key in k.positions())


@given(MASKS, st.integers(1, 7), st.integers(0, 3))
def test_trimmed_tokens_are_the_same_on_every_rank_at_once_and_on_each_alone(mask, p, hops):
    n = sum(mask.documents)
    problem, mesh = Attention(1, 1, 8, n, n, mask=mask), Mesh(ring=p)
    i = mesh.coord("ring")
    tokens = Seen(problem.keys(p)[i], problem.queries(p)[(i + 1) % p], mask).replace(mesh.behind(("ring",), hops))

    counts = per_rank(tokens.count, mesh)

    for rank in range(p):
        alone = tokens.runs(mesh.of_rank(rank)).positions()
        assert counts[rank] == len(alone)
        block = problem.keys(p).runs(np.asarray((rank - hops) % p)).positions()
        ahead = problem.queries(p).runs(np.asarray((rank - hops + 1) % p)).positions()
        assert alone.tolist() == [k for k in block if sees(mask, ahead, k).any()]


def test_keys_and_values_are_trimmed_together():
    def wrong(q, k, v, i, p, me):
        return seen(k, permute(v, over="ring", shift=1), by=q.tokens)

    with breaks("S6", "seen trims rows of the same tokens"):
        ring_of(wrong)


def test_only_what_was_trimmed_is_widened():
    def wrong(q, k, v, i, p, me):
        return widen(permute(k, over="ring", shift=1), to=k)

    with breaks("S5", "widen undoes seen"):
        ring_of(wrong)


def test_gradients_are_widened_that_have_met_the_queries_they_were_trimmed_for():
    problem = Attention(2, 1, 8, 40, 40, mask=Mask(True, 5), phase="train")

    @spmd("ring", phase="train")
    def wrong(me, problem):
        results = dict(ring_attention_train.body(me, problem))
        kept = seen(results["dk"], by=problem.queries(4)[(me.coords[0] + 2) % 4])
        return results | {"dk": widen(*kept, to=results["dk"])[0]}

    with breaks("S8", "widen: rows have met other queries than those they were trimmed for"):
        check(wrong(problem, Mesh(ring=4)))


# -- the ring under a window ---------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [ring_attention, ring_attention_train])
@pytest.mark.parametrize("window", [1, 2, 10, 11, 12, 25])
def test_a_ring_sends_the_halo_and_no_more(program, window):
    # each rank receives the W - 1 keys before its first, or all there are, and no more
    p, each = 4, 10
    problem = Attention(2, 1, 8, p * each, p * each, mask=Mask(True, window), phase=program.phase, dtype="float32")
    schedule = program(problem, Mesh(ring=p))

    keys = [op for op in schedule.ops if op.kind == "permute" and op.inputs[0].type.dtype == "float32" and not op.lane]
    row = 2 * 1 * 8 * 4  # K and V of one head in float32
    sent = sum(sent_bytes(op, schedule.mesh, {}).sum() for op in keys)
    tours = 2 if program.phase == "train" else 1
    received = [min(window - 1, each * rank) for rank in range(p)]
    assert sent == tours * row * sum(received)


def test_where_a_window_reaches_everything_the_ring_goes_all_the_way():
    problem = Attention(2, 1, 8, 40, 40, mask=Mask(True, 40))

    assert sum(op.kind == "permute" for op in ring_attention(problem, Mesh(ring=4)).ops) == 3


def test_in_other_layouts_the_ring_sends_whole_blocks():
    problem = Attention(2, 1, 8, 40, 40, mask=Mask(True, 3), layout="zigzag")

    assert {op.kind for op in ring_attention(problem, Mesh(ring=4)).ops} == {"load", "attend", "permute", "merge"}
