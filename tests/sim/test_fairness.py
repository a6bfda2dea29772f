"""What holds at every instant and under every name: links, bottlenecks, more of a good thing, names, runs."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import simpy
from hypothesis import assume, given
from hypothesis import strategies as st

from sim.apart import rates
from sim.engine import Engine, run
from sim.network import Network
from sim.program import Program, freeze
from sim.state import COMPUTE, TRANSFER
from tests.sim.bundles import Bundle, bundles, sends
from tests.sim.drawn import programs
from tests.sim.graphs import shared_nic, star, two_level
from tests.sim.test_compiled import digest

CLOSE = 1e-12


def instants(frozen):
    """Run one instant after another; yield the engine after each."""
    env = simpy.Environment()
    engine = Engine(env, frozen, burst=False)
    while not engine.done.triggered:
        env.step()
        yield engine


def check_shares(engine):
    """No link carries more than it can, and each flow crosses a full link on which no flow has more for its weight."""
    plan, state = engine.frozen.plan, engine.state
    (slots,) = np.nonzero(state.phase == TRANSFER)
    flows, links = state.flow[slots], len(state.capacity) - 1
    load, most = np.zeros(links), np.zeros(links)
    share = state.rate[slots] / plan.claim[flows]
    crossed = [[link for link in plan.route[flow] if link < links] for flow in flows]
    for k, route in enumerate(crossed):
        for link in route:
            load[link] += state.rate[slots[k]]
            most[link] = max(most[link], share[k])
    full = load >= state.capacity[:-1] * (1 - CLOSE)
    assert (load <= state.capacity[:-1] * (1 + CLOSE)).all()
    for k, route in enumerate(crossed):
        assert any(full[link] and share[k] >= most[link] * (1 - CLOSE) for link in route)


@given(bundles(), st.data())
def test_at_every_instant_no_link_is_above_capacity_and_every_flow_has_a_bottleneck(case, data):
    capacity, routes = case
    numbers = [
        data.draw(st.lists(st.integers(least, most), min_size=len(routes), max_size=len(routes)))
        for least, most in ((1, 1000), (0, 40), (1, 5))
    ]
    for engine in instants(freeze(sends(*numbers), Bundle(capacity, routes))):
        check_shares(engine)


@given(programs(), st.sampled_from([star, two_level, shared_nic]))
def test_so_it_is_in_whole_programs(program, graph):
    for engine in instants(freeze(program, Network(graph(program.ranks)))):
        check_shares(engine)


@given(bundles(), st.data())
def test_twice_the_bandwidth_is_half_the_time_to_the_bit(case, data):
    capacity, routes = case
    sizes = data.draw(st.lists(st.integers(1, 1000), min_size=len(routes), max_size=len(routes)))
    once = run(freeze(sends(sizes), Bundle(capacity, routes)))
    twice = run(freeze(sends(sizes), Bundle([2 * width for width in capacity], routes)))
    assert (twice.end == once.end / 2).all()


@given(programs(), st.data())
def test_more_bandwidth_never_makes_an_isolated_program_later(program, data):
    # Isolated: no flow ever holds back another. (Where flows share, one that comes sooner may hold back a later one.)
    slow, fast = star(program.ranks), star(program.ranks)
    edge = data.draw(st.sampled_from(list(fast.edges)))
    fast.edges[edge]["bandwidth"] *= data.draw(st.floats(1.0, 10.0))
    before = freeze(program, Network(slow))
    assume(rates(before) is not None)
    assert (run(freeze(program, Network(fast))).end <= run(before).end * (1 + CLOSE)).all()


@given(programs(), st.data())
def test_less_data_never_makes_an_isolated_program_later(program, data):
    network = Network(star(program.ranks))
    before = freeze(program, network)
    assume(rates(before) is not None)
    part = data.draw(st.floats(0, 1))
    less = rewritten(program, nbytes=lambda sizes: np.floor(sizes * part))
    assert (run(freeze(less, network)).end <= run(before).end * (1 + CLOSE)).all()


def rewritten(program, names=None, nbytes=lambda sizes: sizes):
    """Return a copy in which rank r is called names[r], and permutes carry other bytes."""
    names = np.arange(program.ranks) if names is None else names
    old = np.argsort(names)
    copy = Program(program.ranks)
    for op, kind in enumerate(program.kinds):
        numbers = np.broadcast_to(program.rows[program.row_of[op]].at(), program.ranks)[old]
        rest = {"after": program.after[op], "stream": program.streams[op]}
        if kind == COMPUTE:
            copy.compute(numbers, **rest)
        else:
            dst = program.patterns[program.pattern_of[op]][old]
            copy.permute(np.where(dst < 0, -1, names[dst]), nbytes(numbers), **rest)
    return copy


@given(programs(), st.sampled_from([star, two_level, shared_nic]), st.data())
def test_other_names_for_the_ranks_change_nothing_to_the_bit(program, graph, data):
    names = np.array(data.draw(st.permutations(range(program.ranks))))
    graph = graph(program.ranks)

    one = run(freeze(program, Network(graph)))
    other = run(freeze(rewritten(program, names), Network(graph, placement=np.argsort(names))))

    assert one.makespan == other.makespan
    assert (one.end == other.end[:, names]).all()
    assert (one.start == other.start[:, names]).all()
    assert one.link_bytes == pytest.approx(other.link_bytes)


def test_the_same_seed_gives_the_same_timeline_in_every_process():
    root = Path(__file__).resolve().parents[2]
    code = "from tests.sim.test_compiled import digest; print(digest())"
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        child = subprocess.run(
            [sys.executable, "-c", code], env=env, cwd=root, capture_output=True, check=True, text=True
        )
        assert child.stdout.strip() == digest()
