"""Faults and stragglers: SimPy processes that change capacities and speeds while flows are under way."""

import dataclasses

import numpy as np
import pytest

from algorithms import find
from algorithms.ir import Attention, Mesh
from sim.engine import run
from sim.lower import lower
from sim.network import Network
from sim.program import Program, freeze
from sim.simulate import Site
from sim.stall import StallError
from tests.sim.graphs import MiB, ring_attention, star, us
from topologies.basic import switch

NETWORK = Network(star(2))
OUT = NETWORK.link("gpu0", "switch")


def one_flow(nbytes=1000 * MiB):
    program = Program(2)
    program.permute([1, -1], nbytes)
    return freeze(program, NETWORK)


def one_compute(cost=1.0):
    program = Program(2)
    program.compute([cost, 0])
    return freeze(program, NETWORK)


def at(seconds, act):
    """Return a process that acts on the engine at `seconds`."""

    def process(env, engine):
        yield env.timeout(seconds)
        act(engine)

    return process


def test_a_flow_goes_on_at_the_new_capacity():
    # latency|full rate until 4 ms|half rate for what is left
    spans = run(one_flow(), processes=[at(4e-3, lambda e: e.set_capacity(OUT, 25e9))])
    left = 1000 * MiB - 50e9 * (4e-3 - 1 * us)
    assert spans.makespan == pytest.approx(4e-3 + left / 25e9, rel=1e-12)


def test_a_link_that_is_down_for_a_while_delays_by_that_while():
    down = at(4e-3, lambda e: e.set_capacity(OUT, 0))
    up = at(9e-3, lambda e: e.set_capacity(OUT, 50e9))
    spans = run(one_flow(), processes=[down, up])
    assert spans.makespan == pytest.approx(5e-3 + 1 * us + 1000 * MiB / 50e9, rel=1e-12)


def test_one_process_may_take_a_link_down_again_and_again():
    def flap(env, engine):
        for wait, capacity in ((4e-3, 0), (50e-3, 0), (50e-3, 0), (50e-3, 50e9)):
            yield env.timeout(wait)
            engine.set_capacity(OUT, capacity)

    spans = run(one_flow(), processes=[flap])
    assert spans.makespan == pytest.approx(150e-3 + 1 * us + 1000 * MiB / 50e9, rel=1e-12)


def test_a_wider_link_helps_only_up_to_the_next_narrowest():
    spans = run(one_flow(), processes=[at(4e-3, lambda e: e.set_capacity(OUT, 500e9))])
    assert spans.makespan == pytest.approx(1 * us + 1000 * MiB / 50e9, rel=1e-12)


def test_a_change_before_the_first_instant_holds_from_the_start():
    def slow_from_the_start(env, engine):
        engine.set_capacity(OUT, 10e9)
        engine.set_speed(0, 0.5)
        yield env.timeout(0)

    assert run(one_flow(), processes=[slow_from_the_start]).makespan == pytest.approx(
        1 * us + 1000 * MiB / 10e9, rel=1e-12
    )
    assert run(one_compute(), processes=[slow_from_the_start]).makespan == 2.0


def test_a_change_during_the_latency_counts_when_the_transfer_starts():
    spans = run(one_flow(), processes=[at(0.5 * us, lambda e: e.set_capacity(OUT, 10e9))])
    assert spans.makespan == pytest.approx(1 * us + 1000 * MiB / 10e9, rel=1e-12)


def test_a_compute_goes_on_at_the_new_speed():
    # 0.25 s at full speed, 0.25 s halted, then 0.75 s of work at speed 1/2
    halt = at(0.25, lambda e: e.set_speed(0, 0))
    resume = at(0.5, lambda e: e.set_speed(0, 0.5))
    assert run(one_compute(), processes=[halt, resume]).makespan == 2.0


def test_a_slow_rank_slows_its_computes_on_every_stream():
    program = Program(1)
    program.compute(1.0, stream=0)
    program.compute(1.0, stream=2)
    frozen = freeze(program, Network(star(1)))
    spans = run(frozen, processes=[at(0.5, lambda e: e.set_speed(0, 0.25))])
    assert spans.end[:, 0].tolist() == [2.5, 2.5]


def test_what_ends_at_the_instant_of_a_fault_has_ended():
    halt = at(1.0, lambda e: (e.set_speed(0, 0), e.set_capacity(OUT, 0)))
    assert run(one_compute(), processes=[halt]).makespan == 1.0


def test_a_hook_acts_before_what_starts_at_its_instant():
    # The compute ends at 1 s and the next one starts then, at the speed set at 1 s.
    program = Program(1)
    program.compute(1.0)
    program.compute(1.0)
    frozen = freeze(program, Network(star(1)))
    spans = run(frozen, processes=[at(1.0, lambda e: e.set_speed(0, 0.5))])
    assert spans.end[:, 0].tolist() == [1.0, 3.0]


def test_many_changes_at_one_instant_are_one():
    def flutter(engine):
        for capacity in (0, 1, 25e9, 0, 25e9):
            engine.set_capacity(OUT, capacity)

    once = run(one_flow(), processes=[at(4e-3, lambda e: e.set_capacity(OUT, 25e9))])
    assert run(one_flow(), processes=[at(4e-3, flutter)]).makespan == once.makespan


def test_a_setting_that_changes_nothing_changes_no_bit():
    frozen = freeze(ring_attention(8, 100 * us, 8 * MiB), Network(star(8)))
    repeat = [at(k * 37 * us, lambda e, k=k: e.set_capacity(k, 50e9)) for k in range(16)]
    assert run(frozen, processes=repeat).end.tobytes() == run(frozen).end.tobytes()


def test_a_link_that_stays_down_is_a_stall_that_names_the_link():
    with pytest.raises(StallError) as caught:
        run(one_flow(), processes=[at(4e-3, lambda e: e.set_capacity(OUT, 0))])
    assert str(caught.value) == (
        "nothing moves after 0.004 s: op 0 on stream 1 rank 0 waits for link gpu0 -> switch, "
        "whose capacity is 0 B/s; op 0 on stream 1 rank 1 waits for the flow from rank 0"
    )


def test_a_stall_names_the_cause_before_those_who_wait_for_it():
    # rank 2 halts; its neighbours wait for its send, and so on around the ring
    frozen = freeze(ring_attention(4, 100 * us, MiB), Network(star(4)))
    with pytest.raises(StallError) as caught:
        run(frozen, processes=[at(110 * us, lambda e: e.set_speed(2, 0))])
    cause, *others = caught.value.waits
    assert (cause.stream, cause.rank, cause.op) == (0, 2, 3)
    assert str(cause) == "op 3 on stream 0 rank 2 waits for its rank, whose speed is 0"
    assert "\n" not in str(caught.value)
    assert len(others) == 0  # sends do not wait for computes here: the others have all ended


def test_a_cycle_of_waits_is_a_stall_that_names_both():
    # A Program cannot wait for a later op; tables made otherwise might.
    program = Program(1)
    first = program.compute(1.0, stream=0)
    second = program.compute(1.0, stream=1, after=[first])
    frozen = freeze(program, Network(star(1)))
    needs = frozen.plan.need_position.copy(), frozen.plan.need_stream.copy()
    needs[0][first], needs[1][first] = 0, 1
    knotted = frozen.bare._replace(need_position=needs[0], need_stream=needs[1])
    with pytest.raises(StallError) as caught:
        run(dataclasses.replace(frozen, bare=knotted))
    assert str(caught.value) == (
        "nothing moves after 0 s: op 0 on stream 0 rank 0 waits for op 1 on stream 1 rank 0, "
        "which waits for op 0 on stream 0 rank 0"
    )
    assert [(wait.op, wait.reason) for wait in caught.value.waits] == [
        (first, f"op {second} on stream 1 rank 0"),
        (second, f"op {first} on stream 0 rank 0"),
    ]


def test_a_rendezvous_that_never_comes_names_the_rank_that_is_missing():
    # rank 1 computes forever, so it never comes to the permute that rank 0 has started
    program = Program(2)
    wait = program.compute([0, 1.0])
    program.permute([1, -1], MiB, after=[wait])
    with pytest.raises(StallError) as caught:
        run(freeze(program, NETWORK), processes=[at(0.5, lambda e: e.set_speed(1, 0))])
    reasons = {(wait.op, wait.rank): wait.reason for wait in caught.value.waits}
    assert reasons[1, 0] == "rank 1, which is at op 1"
    assert reasons[1, 1] == "op 0 on stream 0 rank 1"
    assert reasons[0, 1] == "its rank, whose speed is 0"


def test_a_stall_of_a_schedule_names_its_ops():
    schedule = find("ring")["prefill"](Attention(8, 8, 64, 1024, 1024), Mesh(ring=2))
    site = Site(switch(2), placement=range(2))
    lowered = lower(schedule, site.machine, {})
    frozen = dataclasses.replace(freeze(lowered.program, site.network), label=lowered.label)
    with pytest.raises(StallError) as caught:
        run(frozen, processes=[at(0, lambda e: e.set_speed(1, 0))])
    assert str(caught.value).startswith("nothing moves after ")
    assert "attend 3 on stream compute rank 1 waits for its rank, whose speed is 0" in str(caught.value)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda e: e.set_capacity(4, 1e9), "link must be 0 to 3, got 4"),
        (lambda e: e.set_capacity(0, -1.0), "capacity must be finite and not negative, got -1.0"),
        (lambda e: e.set_capacity(0, np.inf), "capacity must be finite and not negative, got inf"),
        (lambda e: e.set_speed(2, 1.0), "rank must be 0 to 1, got 2"),
        (lambda e: e.set_speed(0, np.nan), "speed must be finite and not negative, got nan"),
    ],
)
def test_an_absurd_setting_is_refused(act, message):
    with pytest.raises(ValueError, match=message):
        run(one_flow(), processes=[at(1e-3, act)])
