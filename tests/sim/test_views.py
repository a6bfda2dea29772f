"""Views in the simulator: no time, no place in a stream, and what has no rows is not sent."""

import numpy as np
import pytest

from algorithms import find
from algorithms.ir import Attention, Mesh, Partial, spmd
from algorithms.ops import is_free, is_view
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.merge import merge
from algorithms.ops.only import only
from algorithms.ops.permute import permute
from sim.lower import lower
from sim.moved import NothingMovedError
from sim.simulate import Site, simulate
from sim.summary import by_kind
from topologies.basic import fully_connected, switch
from topologies.dgx import dgx_h100

SMALL = Attention(16, 4, 64, 4096, 4096, mask="causal")


def distflash(p, n=4096, phase="prefill"):
    return find("distflash")[phase](Attention(16, 4, 64, n, n, mask="causal", phase=phase), Mesh(cp=p))


def program(body):
    """Trace body(q, k, v, i, p) on four ranks of a ring."""

    @spmd("ring")
    def written(me, problem):
        (i,), (p,) = me.coords, me.sizes
        return body(*load(me, problem, problem.queries(p)[i], problem.keys(p)[i]), i, p)

    return written(SMALL, Mesh(ring=4))


def test_a_view_is_no_op_of_the_engine():
    schedule = distflash(5)
    lowered = lower(schedule, Site(switch(5)).machine, {})

    assert {op.kind for op in schedule.ops if is_view(op)} == {"only", "either"}
    for op, first, last in zip(schedule.ops, lowered.first, lowered.last, strict=True):
        assert (first, last) == (-1, -1) or not is_free(op)


def test_a_view_is_there_when_what_it_shows_is():
    schedule = distflash(5)
    timeline = simulate(schedule, fully_connected(5))
    source = {v.id: op.id for op in schedule.ops for v in op.outputs}

    for op in filter(is_view, schedule.ops):
        shown = timeline.end[[source[v.id] for v in op.inputs]].max(0)
        assert (timeline.start[op.id] == shown).all()
        assert (timeline.end[op.id] == shown).all()


def test_a_view_of_what_comes_does_not_hold_up_what_is_computed_meanwhile():
    # Its line stands in front of an attend that has no use for it.
    def body(q, k, v, i, p, early):
        came = permute(k, v, over="ring", shift=1)
        some = only(*came, where=i < 2) if early else None
        part = attend(q, k, v)
        return merge(part, attend(q, *(some or only(*came, where=i < 2))))

    early, late = (simulate(program(lambda *x, e=e: body(*x, e)), switch(4, bandwidth=1e9)) for e in (True, False))

    assert early.makespan == late.makespan


def test_a_summary_and_a_kernel_count_leave_views_out():
    schedule = distflash(5)
    timeline = simulate(schedule, dgx_h100(1))

    assert {row.kind for row in by_kind(schedule, timeline)} == {"attend", "merge", "permute"}


@pytest.mark.parametrize("phase", ["prefill", "train"])
@pytest.mark.parametrize("n", [4096, 4097, 3])
def test_who_has_no_rows_sends_nothing_and_nobody_waits_for_it(phase, n):
    schedule = distflash(4, n, phase)
    lowered = lower(schedule, Site(switch(4)).machine, {})

    for op, first, sent in zip(schedule.ops, lowered.first, lowered.sent, strict=True):
        if op.kind == "permute":
            (row,) = sent
            pattern = lowered.program.patterns[lowered.program.pattern_of[first + 1]]
            assert ((pattern >= 0) == (np.broadcast_to(row.at(), 4) > 0)).all()


def test_ranks_that_merge_nothing_take_no_time_for_it():
    def body(q, k, v, i, p):
        return merge(attend(q, k, v), Partial(*only(*attend(q, k, v), where=i < 2)))

    schedule = program(body)
    timeline = simulate(schedule, dgx_h100(1))
    (op,) = (op for op in schedule.ops if op.kind == "merge")

    seconds = timeline.end[op.id] - timeline.start[op.id]
    assert (seconds[:2] > 0).all()
    assert (seconds[2:] == 0).all()


def test_a_shard_that_is_sent_from_nowhere_is_an_error():
    def body(q, k, v, i, p):
        return merge(attend(q, k, v), attend(q, *permute(*only(k, v, where=i < 0), over="ring", shift=1)))

    with pytest.raises(NothingMovedError, match=r"op 6 permute over ring moves nothing on any of its 4 ranks"):
        simulate(program(body), switch(4))


@pytest.mark.parametrize("phase", ["prefill", "train"])
@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("name, axis, p", [("distflash", "cp", 2), ("distflash", "cp", 6), ("tasp", "ring", 5)])
def test_fewer_tokens_than_ranks_or_parts_are_none(name, axis, p, phase, n):
    few = Attention(16, 4, 64, n, n, mask="causal", phase=phase)

    assert simulate(find(name)[phase](few, Mesh(**{axis: p})), switch(p)).makespan > 0
