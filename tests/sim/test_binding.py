"""What the GPUs' time goes to: arithmetic, memory or launches, and together all of it."""

import pytest

import algorithms
from algorithms.ir import Attention, Mesh
from sim.binding import binding
from sim.costs import Costs
from sim.simulate import Site, simulate
from topologies.basic import switch
from topologies.dgx import dgx_h100
from topologies.units import us


def ring(tokens, ranks=8, layout="striped"):
    problem = Attention(32, 8, 128, tokens, tokens, mask="causal", layout=layout)
    return algorithms.find("ring")["prefill"](problem, Mesh(ring=ranks))


def test_the_parts_add_up_to_the_compute_streams_time():
    found = simulate(ring(1 << 16), Site(dgx_h100(1)))

    assert sum(found.busy_by.values()) == pytest.approx(found.busy.mean())
    assert found.busy_by["launches"] == pytest.approx((8 * 5 + 7 * 3) * us)


@pytest.mark.parametrize("layout, tokens", [("contiguous", 1 << 16), ("zigzag", 65537), ("striped", 1000)])
def test_so_they_do_where_ranks_differ(layout, tokens):
    found = simulate(ring(tokens, layout=layout), Site(dgx_h100(1)))

    assert sum(found.busy_by.values()) == pytest.approx(found.busy.mean())


@pytest.mark.parametrize(
    "tokens, costs, what",
    [
        (1 << 18, {}, "compute"),
        (1 << 10, {}, "launches"),
        (1 << 16, {"merge_nbytes": 400.0}, "memory"),
    ],
)
def test_what_takes_most_is_named(tokens, costs, what):
    assert binding(simulate(ring(tokens), Site(dgx_h100(1), Costs(**costs))).busy_by) == what


def test_an_idealised_cluster_computes():
    assert binding(simulate(ring(1 << 12), Site(switch(8))).busy_by) == "compute"
