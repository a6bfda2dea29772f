"""Burst and strict runs are one: the same bits, whatever processes do in between."""

import numpy as np
import simpy
from hypothesis import given
from hypothesis import strategies as st

from sim.engine import Engine, run
from sim.network import Network
from sim.program import freeze
from tests.sim.drawn import programs
from tests.sim.graphs import MiB, ring_attention, star, two_level, us


@st.composite
def changes(draw, ranks, links):
    """Draw what one process does: waits, and settings that are undone at the end, so that nothing stalls."""
    acts = []
    for _ in range(draw(st.integers(0, 4))):
        wait = draw(st.sampled_from([0.0, 7 * us, 10 * us, 33.3 * us]))
        target, number = draw(st.sampled_from([("link", links), ("rank", ranks)]))
        acts.append((wait, target, draw(st.integers(0, number - 1)), draw(st.sampled_from([0.0, 0.3, 1.0, 2.5]))))
    return acts


def process(acts):
    """Return the process: factors of the capacities and speeds as planned."""

    def act(env, engine):
        planned = engine.frozen.network.capacity
        for wait, target, which, factor in acts:
            yield env.timeout(wait)
            change = engine.set_capacity if target == "link" else engine.set_speed
            change(which, factor * planned[which] if target == "link" else factor)
        yield env.timeout(5 * us)
        for _, target, which, _ in acts:
            engine.set_capacity(which, planned[which]) if target == "link" else engine.set_speed(which, 1.0)

    return act


@given(st.data())
def test_burst_is_strict_bit_for_bit(data):
    program = data.draw(programs())
    network = Network(two_level(program.ranks, node=4))
    acts = data.draw(st.lists(changes(program.ranks, network.pad), max_size=3))
    frozen, processes = freeze(program, network), [process(one) for one in acts]

    burst = run(frozen, processes=processes)
    strict = run(frozen, processes=processes, burst=False)

    for name in ("start", "end", "link_bytes"):
        assert getattr(burst, name).tobytes() == getattr(strict, name).tobytes()
    assert (burst.makespan, burst.instants) == (strict.makespan, strict.instants)


def test_what_waits_for_the_run_to_be_done_wakes_at_its_end():
    frozen, woken = freeze(ring_attention(4, 100 * us, MiB), Network(star(4))), []

    def wait(env, engine):
        yield engine.done
        woken.append(env.now)

    env = simpy.Environment()
    engine = Engine(env, frozen)
    env.process(wait(env, engine))
    env.run()
    assert woken == [engine.now] == [engine.spans().makespan]


def test_a_strict_run_can_be_looked_at_between_instants():
    frozen, seen = freeze(ring_attention(4, 100 * us, MiB), Network(star(4))), []
    env = simpy.Environment()
    engine = Engine(env, frozen, burst=False)
    while not engine.done.processed:
        env.step()
        seen.append(engine.instants)
    assert np.diff(seen).max() == 1
