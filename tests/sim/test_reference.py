"""The engine against SimGrid: the ends of thousands of flows that share links, in three regimes of latency.

The answers were stored once, by `tests/reference/generate.py`, which holds SimGrid's configuration. SimGrid's model
CM02 divides a full link in proportion to 1/latency, as TCP does, so there the flows get such weights.
"""

import gzip
import json

import pytest

from sim.engine import run
from sim.program import freeze
from tests.reference.generate import CONFIGURATION, FILE, digest
from tests.reference.instances import REGIMES, SEEDS, instance
from tests.sim.bundles import Bundle, sends

FULL = 1 << 40  # the weight of the flow of the least latency


@pytest.fixture(scope="module")
def reference():
    return json.loads(gzip.decompress(FILE.read_bytes()))


def ends(case):
    """Return when the engine says that each flow ends."""
    delays = case.delays()
    weights = [round(FULL * min(delays) / delay) if delay > 0 else 1 for delay in delays]
    program = sends(case.size, case.start, weights)
    return run(freeze(program, Bundle(case.capacity, case.routes, case.latency))).end[1, ::2]


@pytest.mark.parametrize("regime", REGIMES)
def test_every_flow_ends_when_simgrid_says(regime, reference):
    for seed in range(SEEDS):
        stored = [float.fromhex(end) for end in reference["ends"][regime][seed]]
        assert ends(instance(regime, seed)) == pytest.approx(stored, rel=1e-9, abs=0), f"{regime} seed {seed}"


@pytest.mark.parametrize("regime", REGIMES)
def test_simgrid_was_asked_about_these_very_instances(regime, reference):
    assert digest([instance(regime, seed) for seed in range(SEEDS)]) == reference["instances"][regime]
    assert len(reference["ends"][regime]) == SEEDS >= 100


def test_the_answers_say_what_gave_them(reference):
    assert reference["simulator"].startswith("SimGrid ")
    assert reference["date"]
    assert reference["configuration"] == CONFIGURATION
