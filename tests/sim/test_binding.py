"""What the GPUs' time goes to: arithmetic, memory or launches, and together all of it."""

import pytest

import algorithms
from algorithms.ir import Attention, Mesh
from sim.binding import binding, seconds_by
from sim.costs import Costs
from sim.simulate import Site, simulate
from topologies.basic import switch
from topologies.dgx import dgx_h100
from topologies.units import us


def ring(tokens, ranks=8):
    problem = Attention(32, 8, 128, tokens, tokens, mask="causal", layout="striped")
    return algorithms.find("ring")["prefill"](problem, Mesh(ring=ranks))


def test_the_parts_add_up_to_the_compute_streams_time():
    schedule, site = ring(1 << 16), Site(dgx_h100(1))

    found = seconds_by(schedule, site.machine)

    assert sum(found.values()) == pytest.approx(simulate(schedule, site).busy.mean())
    assert found["launches"] == pytest.approx((8 * 5 + 7 * 3) * us)


@pytest.mark.parametrize(
    "tokens, costs, what",
    [
        (1 << 18, {}, "compute"),
        (1 << 10, {}, "launches"),
        (1 << 16, {"merge_nbytes": 400.0}, "memory"),
    ],
)
def test_what_takes_most_is_named(tokens, costs, what):
    assert binding(ring(tokens), Site(dgx_h100(1), Costs(**costs)).machine) == what


def test_an_idealised_cluster_computes():
    assert binding(ring(1 << 12), Site(switch(8)).machine) == "compute"


def test_of_many_ranks_a_sample_is_near_all(monkeypatch):
    schedule, site = ring(1 << 20, 256), Site(dgx_h100(32))
    sampled = seconds_by(schedule, site.machine)
    monkeypatch.setattr("sim.binding.RANKS", 10**6)
    monkeypatch.setattr("sim.binding.OPS", 10**6)
    whole = seconds_by(schedule, site.machine)

    for what, seconds in whole.items():
        assert sampled[what] / sum(sampled.values()) == pytest.approx(seconds / sum(whole.values()), abs=0.03)
