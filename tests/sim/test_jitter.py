"""Jitter: the same seed is the same timeline, to the bit."""

import subprocess
import sys

import numpy as np
import pytest

from algorithms import find
from algorithms.ir import Attention, Mesh
from sim.jitter import Jitter
from sim.simulate import simulate
from topologies.dgx import dgx_h100

SCHEDULE = find("ring")["prefill"](Attention(16, 4, 64, 65536, 65536), Mesh(ring=8))


def test_factors_have_mean_1_and_the_deviation_asked_for():
    factors = Jitter(0.2, seed=7).factors(3, 200_000)

    assert factors.mean() == pytest.approx(1, abs=2e-3)
    assert factors.std() == pytest.approx(0.2, rel=1e-2)
    assert factors.min() > 0


def test_factors_of_ops_ranks_repeats_and_seeds_are_their_own():
    drawn = [Jitter(0.1, s, r).factors(op, 500) for s in (1, 2) for r in (0, 1, 2) for op in (0, 1, 2)]

    assert len(np.unique(drawn)) == len(drawn) * 500
    assert np.abs(np.corrcoef(drawn) - np.eye(len(drawn))).max() < 0.25


def test_a_factor_does_not_depend_on_how_many_ranks_there_are():
    assert (Jitter(0.1).factors(5, 8) == Jitter(0.1).factors(5, 64)[:8]).all()


def test_the_same_seed_is_the_same_timeline_in_another_process_too():
    code = (
        "from tests.sim.test_jitter import SCHEDULE, Jitter, dgx_h100, simulate;"
        "print(simulate(SCHEDULE, dgx_h100(1), jitter=Jitter(0.05, 3)).end.tobytes().hex())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    here = [simulate(SCHEDULE, dgx_h100(1), jitter=Jitter(0.05, seed)).end.tobytes() for seed in (3, 3, 4)]
    assert here[0].hex() == here[1].hex() == done.stdout.strip()
    assert here[0] != here[2]


def test_only_computes_vary():
    plain, varied = (simulate(SCHEDULE, dgx_h100(1), jitter=jitter) for jitter in (None, Jitter(0.05)))

    assert (varied.sent == plain.sent).all()
    assert varied.link_bytes == plain.link_bytes
    assert (varied.busy != plain.busy).all()
    assert varied.about["jitter"] == {"spread": 0.05, "seed": 1, "repeat": 0}


def test_the_same_program_draws_the_same_whatever_does_nothing_beside_it():
    problem = Attention(16, 4, 64, 65536, 65536)
    usp = find("usp")["prefill"](problem, Mesh(ring=8, ulysses=1))
    ring, same = (simulate(schedule, dgx_h100(1), jitter=Jitter(0.05)) for schedule in (SCHEDULE, usp))

    assert len(usp.ops) > len(SCHEDULE.ops)  # its all-to-alls, over one rank
    assert same.makespan == ring.makespan


@pytest.mark.parametrize("spread, seed, message", [(0, 1, "above 0"), (1, 1, "below 1"), (0.1, -1, "--seed")])
def test_absurd_jitter_is_refused(spread, seed, message):
    with pytest.raises(ValueError, match=message):
        Jitter(spread, seed)
