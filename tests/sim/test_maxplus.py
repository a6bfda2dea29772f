"""Max-plus against the engine: where flows never hold each other back, the same bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms import find
from algorithms.ir import Attention, Mesh
from algorithms.ways import DEFAULT
from sim.apart import rates
from sim.engine import run
from sim.fold import fold
from sim.lower import lower
from sim.maxplus import recur
from sim.network import Network
from sim.program import Program, freeze
from sim.simulate import Site
from tests.sim.drawn import meshed, programs
from tests.sim.graphs import MiB, ring_attention, shared_nic, shift, star, two_level, us
from topologies.basic import fully_connected
from topologies.dgx import dgx_a100, dgx_h100


def assert_same(frozen):
    """Run both, in full and in short; every op on every rank starts and ends alike, every link carries as much."""
    rate = rates(frozen)
    assert rate is not None
    for record in ("full", "extent"):
        events, recurrence = run(frozen, record=record), recur(frozen, rate, record)
        for name in ("start", "end", "link_bytes"):
            assert getattr(events, name).tobytes() == getattr(recurrence, name).tobytes()
        assert events.makespan == recurrence.makespan


@settings(max_examples=200)
@given(st.one_of(meshed(), programs()), st.sampled_from([star, two_level, shared_nic, fully_connected]))
def test_max_plus_is_the_engine_where_flows_are_apart(program, graph):
    frozen = freeze(program, Network(graph(program.ranks)))
    if rates(frozen) is not None:
        assert_same(frozen)


@given(st.integers(2, 12), st.integers(1, 12), st.randoms(use_true_random=False))
def test_a_jittered_ring_is_a_recurrence(ranks, steps, random):
    cost = [np.array([random.uniform(0, 1e-3) for _ in range(ranks)]) for _ in range(steps)]
    program, sent = Program(ranks), []
    for one in cost:
        done = program.compute(one, after=sent)
        sent = [program.permute(shift(ranks), MiB, after=[done])]
    assert_same(freeze(program, Network(two_level(ranks))))


@pytest.mark.parametrize(
    "name, axes, cluster",
    [
        ("ring", {"ring": 24}, dgx_h100(3)),
        ("ring", {"ring": 24}, dgx_a100(3)),
        ("all_gather_kv", {"cp": 24}, dgx_a100(3)),
        ("ulysses", {"ulysses": 24}, dgx_h100(3)),
    ],
)
def test_algorithms_of_one_stream_are_apart_on_real_machines(name, axes, cluster):
    # rails and spine carry many flows at once, but are wide enough for all of their NICs
    problem = Attention(48, 48, 64, 4099, 4099, mask="causal", layout="contiguous")
    site = Site(cluster)
    lowered = lower(find(name)["prefill"](problem, Mesh(**axes)), site.machine, DEFAULT)
    assert_same(freeze(lowered.program, site.network))


def two_streams(ranks):
    """Two permutes at once on two streams."""
    program = Program(ranks)
    program.permute(shift(ranks, 1), MiB, stream=1)
    program.permute(shift(ranks, 2), MiB, stream=2)
    return program


def test_flows_that_may_share_a_link_are_refused():
    assert rates(freeze(two_streams(8), Network(star(8)))) is None
    assert rates(freeze(two_streams(8), Network(fully_connected(8)))) is not None
    frozen = freeze(ring_attention(16, 100 * us, MiB), Network(star(16)))
    assert rates(fold(frozen).frozen) is not None
    program = Program(16)
    program.permute(shift(16, 4), MiB)
    shared = freeze(program, Network(shared_nic(16)))
    assert rates(shared) is None
    assert rates(fold(shared).frozen) is None  # one flow, but it weighs four


def test_a_wide_link_is_one_with_room_for_all():
    # two senders of 50 GB/s into a middle of 100 GB/s and a hair
    def graph(middle):
        cluster = star(4)
        for a, b in [("gpu0", "left"), ("gpu1", "left"), ("right", "gpu2"), ("right", "gpu3")]:
            cluster.add_edge(a, b, bandwidth=50e9, latency=0.1 * us)
        cluster.add_edge("left", "right", bandwidth=middle, latency=0.1 * us)
        return cluster

    program = Program(4)
    program.permute([2, 3, -1, -1], [MiB, 2 * MiB, 0, 0])
    assert rates(freeze(program, Network(graph(100e9)))) is None  # equal: rounding decides
    assert_same(freeze(program, Network(graph(101e9))))


def test_a_pair_swap_counts_the_links_of_each_direction():
    program = Program(4)
    program.permute([1, 0, 3, 2], MiB, stream=1)
    program.permute([2, -1, -1, -1], MiB, stream=2)
    assert rates(freeze(program, Network(star(4)))) is None
