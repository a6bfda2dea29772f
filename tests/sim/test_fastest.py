"""A simulation chooses the fastest way by itself, says which, and gets the same bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms import find
from algorithms.ir import Attention, Mesh
from sim import fastest
from sim.engine import run
from sim.fastest import run_fastest
from sim.network import Network
from sim.program import Program, freeze
from sim.simulate import simulate
from sim.stall import StallError
from tests.sim.drawn import meshed
from tests.sim.graphs import MiB, ring_attention, shared_nic, shift, star, two_level, us
from topologies.dgx import dgx_h100


@pytest.fixture
def _nothing_is_small(monkeypatch):
    monkeypatch.setattr(fastest, "SMALL", 0)


@given(meshed(), st.sampled_from([star, two_level, shared_nic]))
@pytest.mark.usefixtures("_nothing_is_small")
def test_the_fastest_way_gives_the_bits_of_the_engine(program, graph):
    frozen = freeze(program, Network(graph(program.ranks)))
    whole = run(frozen)
    chosen, short = run_fastest(frozen).unfolded(), run_fastest(frozen, "extent")
    for name in ("start", "end", "link_bytes"):
        assert (getattr(chosen, name) == getattr(whole, name)).all()
    assert (short.start == whole.start.min(1)).all()
    assert (short.end == whole.end.max(1)).all()
    assert chosen.makespan == short.makespan == whole.makespan


def two_directions(ranks):
    """Permutes of both neighbours at once, which share links on a machine with one NIC."""
    program = Program(ranks)
    for step in range(50):
        program.permute(shift(ranks, 1), MiB * (1 + np.arange(ranks) % 3), stream=1)
        program.permute(shift(ranks, -1), MiB * (1 + (np.arange(ranks) + step) % 5), stream=2)
    return program


@pytest.mark.parametrize(
    "program, graph, how",
    [
        (ring_attention(128, 100 * us, MiB), shared_nic, "folded to 4 of 128 ranks, max-plus"),
        (ring_attention(128, np.linspace(1, 2, 128) * us, MiB), star, "max-plus"),
        (two_directions(128), shared_nic, "events in bursts"),
        (ring_attention(4, 100 * us, MiB), star, "events in bursts"),
    ],
)
def test_the_way_is_told(program, graph, how):
    assert run_fastest(freeze(program, Network(graph(program.ranks)))).how == how


def test_a_timeline_says_how_it_was_found():
    schedule = find("ring")["prefill"](Attention(8, 8, 64, 1 << 20, 1 << 20), Mesh(ring=64))
    assert simulate(schedule, dgx_h100(8)).about["engine"] == "folded to 8 of 64 ranks, max-plus"


def test_a_folded_stall_names_ranks_and_not_classes(monkeypatch):
    frozen = freeze(ring_attention(64, 100 * us, MiB), Network(star(64)))
    monkeypatch.setattr(fastest, "_run_whole", _stalls)
    assert run_fastest(frozen).unfolded().start.shape[1] == 64


def _stalls(*_):
    raise StallError(0.0, [])
