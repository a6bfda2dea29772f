"""What a repair gives: never less than before, and never anything for a fault that is not there."""

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.repairs import repairs
from tests.validation.a100_box import box
from topologies.basic import switch
from topologies.dgx import dgx_h100
from topologies.laws import check
from topologies.units import GB

OWN = ["pcie0", "pcie0", "pcie1", "pcie1", "pcie2", "pcie2", "pcie3", "pcie3"]
BOX = box(2, OWN)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(BOX.edges)), st.sampled_from([0.1, 0.25, 0.5, 0.9]), max_size=6))
def test_mending_never_costs_bandwidth_and_gives_a_graph_under_the_laws(slower):
    graph = BOX.copy()
    for link, share in slower.items():
        graph.edges[link]["bandwidth"] *= share

    _, found = repairs(graph)

    for one in found:
        check(one.finding.mended())
        assert one.all_reduce_mended >= one.all_reduce * (1 - 1e-9)
        assert one.send_recv_mended >= one.send_recv * (1 - 1e-9)
        assert one.all_to_all_mended >= one.all_to_all * (1 - 1e-9)
    below = [link for link, share in slower.items() if share < 0.8]
    assert bool(found) or not below


def test_the_pair_is_one_that_gains_and_its_figures_are_of_both_ways_at_once():
    graph = dgx_h100(2)
    for link in (("node1/nic2", "rail2"), ("rail2", "node1/nic2")):
        graph.edges[link]["bandwidth"] /= 4
        graph.edges[link]["expected"] = 50 * GB

    _, (one,) = repairs(graph)

    assert "node1/gpu2" in one.pair
    assert (one.send_recv, one.send_recv_mended) == pytest.approx((0.97 * 12.5 * GB, 0.97 * 50 * GB))
    assert one.all_reduce_mended == pytest.approx(4 * one.all_reduce)


def test_nodes_may_be_called_by_anything():
    graph = nx.relabel_nodes(switch(4), {"gpu0": 0, "gpu1": (1, 2), "switch": 7})
    graph.edges[0, 7]["bandwidth"] /= 2

    _, (one,) = repairs(graph)

    assert one.finding.where == ("0 -> 7",)
    assert one.all_reduce_mended == pytest.approx(2 * one.all_reduce)
