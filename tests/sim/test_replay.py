"""A replay of a run whose times are known gives that run: of any algorithm, whatever its ops took."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms import find, names
from algorithms.ir import Attention, Mesh, ScheduleError
from algorithms.ir.job import factorisations
from algorithms.ops import free
from algorithms.ring import ring_attention
from sim.jitter import Jitter
from sim.own_times import ALONE, POSTED, WAITED, own
from sim.replay import replay
from sim.simulate import simulate
from tests.sim.graphs import star
from tests.sim.runs import PROBLEM, drawn

PROGRAMS = {f"{name} {phase}": p for name in names() for phase, p in find(name).items()}


def cluster(ranks, driven=False):
    graph = star(ranks, bandwidth=1e9)
    for _, data in graph.nodes(data=True):
        data["flop_rate"], data["memory_bandwidth"] = 1e10, 1e10
    for *_, data in graph.edges(data=True):
        data["offloaded"] = not driven
    return graph


def schedule_of(program):
    """Return its schedule on 6 ranks, or on 5, which have tasp's cycles."""
    new = 4 if program.phase == "decode" else 192
    problem = Attention(12, 12, 16, new, 192, mask="causal", phase=program.phase)
    for sizes in (*factorisations(6, len(program.axes)), *factorisations(5, len(program.axes))):
        axes = dict(zip(program.axes, sizes, strict=True))
        for layout in dict.fromkeys(("contiguous", *program.layouts)):
            try:
                return program(replace(problem, layout=layout), Mesh(**axes))
            except ScheduleError:
                continue
    raise AssertionError(f"{program} runs on neither 6 nor 5 ranks")


def assert_same(found, timeline):
    lasted = (timeline.end > timeline.start).any(1)
    ran = [place for place, op in enumerate(timeline.ops) if op["kind"] not in free() and lasted[place]]
    assert found.makespan == pytest.approx(timeline.makespan, rel=1e-9)
    assert found.end[ran] == pytest.approx(timeline.end[ran], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("driven", [False, True], ids=["streams", "driven"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_simulated_run_with_jitter_is_replayed_exactly(name, driven):
    schedule = schedule_of(PROGRAMS[name])
    timeline = simulate(schedule, cluster(schedule.mesh.size, driven), jitter=Jitter(0.5, seed=3), record="full")

    took = own(schedule, timeline)

    assert_same(replay(schedule, timeline, took), timeline)
    assert took.by_line or not driven


@pytest.mark.parametrize("noted", [False, True], ids=["", "waits noted"])
@pytest.mark.parametrize("meets", [WAITED, POSTED])
@settings(max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from(sorted(PROGRAMS)))
def test_a_run_line_by_line_is_replayed_exactly(meets, noted, seed, name):
    schedule = schedule_of(PROGRAMS[name])
    timeline, waited, _ = drawn(schedule, np.random.default_rng(seed), schedule.mesh.size, meets)

    took = own(schedule, timeline, waited if noted else None)

    assert took.by_line
    assert_same(replay(schedule, timeline, took), timeline)


def test_waiting_for_a_partner_is_not_a_transfers_own_time():
    # rank 0  attend-|post|wait.........|hop--|attend|merge
    # rank 1  attend--------------|post|hop--|attend|merge
    schedule = ring_attention(PROBLEM, Mesh(ring=2))
    timeline, waited, took = drawn(schedule, np.random.default_rng(1), 2)
    permute = next(op.id for op in schedule.ops if op.kind == "permute")

    found = own(schedule, timeline, waited)

    assert found.meets[permute] == WAITED
    assert found.seconds == pytest.approx(took[0], rel=1e-9)
    assert found.posting[permute] == pytest.approx(took[1, permute], rel=1e-9)


def test_a_message_that_was_there_before_its_sender_waited_for_it_met_at_its_post():
    # rank 0  post|attend------------------|wait|...
    # rank 1  post|attend|wait|...              ends before rank 0 begins to wait
    schedule = ring_attention(PROBLEM, Mesh(ring=2))
    timeline, waited, _ = drawn(schedule, np.random.default_rng(1), 2, POSTED)
    permute = next(op.id for op in schedule.ops if op.kind == "permute")
    timeline.start[permute + 1 :, 0] += 1.0  # rank 0 attends a second longer
    timeline.end[permute - 1 :, 0] += 1.0
    waited[permute, 0] += 1.0
    longer = replace(timeline, makespan=float(timeline.end.max()))

    found = own(schedule, longer, waited)

    assert found.by_line
    assert found.meets[permute] == POSTED
    assert_same(replay(schedule, longer, found), longer)


def test_ops_of_compute_meet_nobody():
    schedule = ring_attention(PROBLEM, Mesh(ring=2))
    found = own(schedule, simulate(schedule, cluster(2)))

    assert all((op.stream is None) == (meets == ALONE) for op, meets in zip(schedule.ops, found.meets, strict=True))


def test_a_slower_op_of_one_rank_delays_those_that_wait_for_it():
    #   before              attend 10 | hop 5 | attend 10           both ranks: 25
    #   rank 1 is 7 slower  attend 17 | hop 5 | attend 10           rank 0 waits 7: both 32
    schedule = ring_attention(PROBLEM, Mesh(ring=2))
    timeline, waited, _ = drawn(schedule, np.random.default_rng(5), 2)
    took = own(schedule, timeline, waited)
    for op in schedule.ops:
        took.seconds[op.id] = {"attend": 10.0, "permute": 5.0}.get(op.kind, 0.0)
        took.posting[op.id] = 0.0
    first = next(op.id for op in schedule.ops if op.kind == "attend")

    before = replay(schedule, timeline, took).makespan
    took.seconds[first, 1] += 7.0

    assert (before, replay(schedule, timeline, took).makespan) == (25.0, 32.0)
