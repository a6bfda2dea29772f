"""The engine: timelines that can be drawn by hand, and laws that hold for every program."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.engine import run
from sim.network import Network
from sim.program import Program, freeze
from tests.sim.drawn import programs
from tests.sim.graphs import MiB, one_send, ring_attention, shift, star, two_level, us

HOP = 1 * us + MiB / 50e9  # 1 MiB over a star


def simulate(program, graph, **options):
    return run(freeze(program, Network(graph)), **options)


def test_a_permute_meets_when_the_slower_end_is_ready():
    # rank 0  wait|hop--|              sends to 1, receives nothing
    # rank 1  wait------|hop--|        the receive starts the flow at 2 ms
    program = Program(2)
    ready = program.compute([1e-3, 2e-3])
    sent = program.permute([1, -1], MiB, after=[ready])
    spans = simulate(program, star(2))
    assert spans.start[sent].tolist() == [1e-3, 2e-3]
    assert spans.end[sent] == pytest.approx([2e-3 + HOP] * 2, rel=1e-12)
    assert spans.makespan == spans.end.max()


def test_a_rank_is_done_when_its_own_send_and_receive_are():
    # 0 -> 1 carries 1 MiB, 1 -> 2 carries 3 MiB: rank 0 is done first, ranks 1 and 2 together.
    program = Program(3)
    sent = program.permute([1, 2, -1], [MiB, 3 * MiB, 0])
    spans = simulate(program, star(3))
    long = 1 * us + 3 * MiB / 50e9
    assert spans.end[sent] == pytest.approx([HOP, long, long], rel=1e-12)


def test_two_flows_into_one_gpu_share_its_link():
    # rank 1 receives 1 MiB from 0 and 2 MiB from 2, on two streams:
    # both at half rate until the first ends after 2 MiB on the link, then the other alone: 3 MiB in all
    program = Program(3)
    short = program.permute([1, -1, -1], MiB, stream=1)
    long = program.permute([-1, -1, 1], 2 * MiB, stream=2)
    spans = simulate(program, star(3))
    assert spans.end[short, 0] == pytest.approx(1 * us + 2 * MiB / 50e9, rel=1e-12)
    assert spans.end[long, 2] == pytest.approx(1 * us + 3 * MiB / 50e9, rel=1e-12)


def test_an_op_that_does_nothing_on_a_rank_is_passed_at_once():
    # rank 2 has no part in the permute; nothing is NaN or infinite
    program = Program(3)
    first = program.compute([1e-3, 1e-3, 3e-3])
    sent = program.permute(one_send(3, 0, 1), MiB, after=[first])
    program.permute([-1, -1, -1], MiB, after=[sent])
    last = program.compute(0.0, after=[sent])
    spans = simulate(program, star(3))
    assert np.isfinite(spans.start).all()
    assert np.isfinite(spans.end).all()
    assert spans.start[sent, 2] == spans.end[sent, 2] == 3e-3
    assert (spans.start[last] == spans.end[last]).all()


def test_a_flow_without_bytes_costs_its_latency_and_no_link():
    program = Program(2)
    program.permute([1, 0], 0)
    spans = simulate(program, star(2))
    assert spans.makespan == pytest.approx(1 * us, rel=1e-12)
    assert not spans.link_bytes.any()


def test_a_rank_sends_to_itself_in_no_time():
    program = Program(3)
    program.permute([0, 2, 1], [1e12, MiB, MiB])
    spans = simulate(program, star(3))
    assert spans.end[0, 0] == 0
    assert spans.makespan == pytest.approx(HOP, rel=1e-12)
    assert spans.link_bytes.sum() == 4 * MiB  # two flows over two links each


def test_a_program_without_ops_takes_no_time():
    spans = simulate(Program(2), star(2))
    assert spans.makespan == 0
    assert spans.start.shape == (0, 2)


def test_streams_overlap_and_one_stream_does_not():
    # stream 0  a---|b---|
    # stream 1  c---|        but d in stream 1 waits for a and c
    program = Program(1)
    a = program.compute(2.0)
    b = program.compute(2.0)
    c = program.compute(1.0, stream=1)
    d = program.compute(1.0, after=[a], stream=1)
    spans = simulate(program, star(1))
    assert spans.start[[a, b, c, d], 0].tolist() == [0, 2, 0, 2]
    assert spans.end[[a, b, c, d], 0].tolist() == [2, 4, 1, 3]


@given(programs())
def test_every_op_waits_for_its_inputs_and_its_stream(program):
    spans = simulate(program, two_level(program.ranks, node=4))
    assert (spans.start <= spans.end).all()
    last = {}
    for op, (stream, after) in enumerate(zip(program.streams, program.after, strict=True)):
        before = [spans.end[earlier] for earlier in after] + [spans.end[last[s]] for s in [stream] if s in last]
        ready = np.max(before, axis=0) if before else np.zeros(program.ranks)
        assert (spans.start[op] == ready).all()
        last[stream] = op


@given(programs())
def test_a_run_has_the_same_bits_each_time_and_in_each_record(program):
    frozen = freeze(program, Network(two_level(program.ranks, node=4)))
    full, again, extent = run(frozen), run(frozen), run(frozen, record="extent")
    assert full.start.tobytes() == again.start.tobytes()
    assert full.end.tobytes() == again.end.tobytes()
    assert (full.start.min(axis=1) == extent.start).all()
    assert (full.end.max(axis=1) == extent.end).all()
    assert full.makespan == again.makespan == extent.makespan == full.end.max()
    assert (full.link_bytes == extent.link_bytes).all()


seconds = st.floats(0, 1e-3)
rings = st.integers(2, 9).flatmap(
    lambda ranks: st.tuples(
        st.just(ranks),
        st.lists(st.lists(seconds, min_size=ranks, max_size=ranks), min_size=1, max_size=8),
        st.integers(0, 64 * MiB),
    )
)


def jittered_ring(ranks, costs, nbytes):
    """Return a ring whose computes take costs[step][rank]; step + 1 needs what step sent."""
    program, sent = Program(ranks), []
    for cost in costs:
        done = program.compute(np.array(cost), after=sent)
        sent = [program.permute(shift(ranks), nbytes, after=[done])]
    return program


@given(rings)
def test_a_ring_without_contention_is_a_recurrence(case):
    # A link carries one flow at a time here, so a hop's end is max(both ends ready) + latency + bytes / rate.
    ranks, costs, nbytes = case
    spans = simulate(jittered_ring(ranks, costs, nbytes), star(ranks))
    hop, ready = 1 * us + nbytes / 50e9, np.zeros(ranks)
    for step, cost in enumerate(costs):
        computed = ready + cost
        arrives = np.maximum(computed, np.roll(computed, -1)) + hop  # at rank r: what r sends has arrived
        ready = np.maximum(arrives, np.roll(arrives, 1))
        assert spans.end[2 * step] == pytest.approx(computed, rel=1e-11, abs=1e-18)
        assert spans.end[2 * step + 1] == pytest.approx(ready, rel=1e-11)


@given(rings, st.floats(1, 10))
def test_more_bandwidth_never_costs_time_without_contention(case, faster):
    ranks, costs, nbytes = case
    program = jittered_ring(ranks, costs, nbytes)
    slow = simulate(program, star(ranks, bandwidth=50e9)).makespan
    fast = simulate(program, star(ranks, bandwidth=50e9 * faster)).makespan
    assert fast <= slow * (1 + 1e-12)


def test_frozen_programs_do_not_change_when_run():
    frozen = freeze(ring_attention(4, 100 * us, MiB), Network(star(4)))
    before = [np.array(table) for table in frozen.plan]
    run(frozen, processes=[_halve_everything])
    assert all((old == new).all() for old, new in zip(before, frozen.plan, strict=True))
    assert (frozen.network.capacity[:-1] == 50e9).all()
    with pytest.raises(dataclasses.FrozenInstanceError):
        frozen.ranks = 5


def _halve_everything(env, engine):
    yield env.timeout(50 * us)
    for link in range(engine.frozen.network.pad):
        engine.set_capacity(link, 25e9)


def test_progress_is_told_now_and_then():
    calls = []
    simulate(ring_attention(4, 1 * us, 1), star(4), progress=lambda share, now: calls.append((share, now)))
    assert 1 <= len(calls) < 10  # the run has far more instants than it has tenths of a second
    assert all(0 <= share <= 1 for share, _ in calls)
    assert calls == sorted(calls)
