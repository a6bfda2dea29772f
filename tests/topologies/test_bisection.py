"""The bisection bandwidth equals closed formulas, and the maximum flow of the whole graph."""

import time

import networkx as nx
import pytest

import topologies
from topologies import bisection as module
from topologies import fabrics
from topologies.basic import fully_connected, ring, switch
from topologies.bisection import bisection
from topologies.dgx import dgx_h100
from topologies.laws import gpus
from topologies.links import Link, cable
from topologies.units import GB, us

B = 100 * GB


@pytest.mark.parametrize("p", [2, 3, 8, 1024])
def test_a_switch_gives_each_gpu_of_the_smaller_half_its_link(p):
    assert bisection(switch(p, B)).bandwidth == p // 2 * B


@pytest.mark.parametrize("p, cables", [(2, 1), (3, 2), (8, 2), (101, 2)])
def test_a_ring_is_cut_at_two_cables(p, cables):
    assert bisection(ring(p, B)).bandwidth == cables * B


@pytest.mark.parametrize("p", [2, 5, 8])
def test_all_cables_between_two_halves(p):
    assert bisection(fully_connected(p, B)).bandwidth == (p // 2) * (p - p // 2) * B


@pytest.mark.parametrize("over", [1, 2, 4])
def test_a_fat_tree_has_its_half_over_the_oversubscription(over):
    graph = dgx_h100(16, fabrics.parse(f"fat_tree:oversubscription={over}"))  # two leaves of 32 NICs a half

    assert bisection(graph).bandwidth == pytest.approx(16 / 2 * 8 * 50 * GB / over)


@pytest.mark.parametrize("name", topologies.names())
def test_joining_nodes_that_are_alike_changes_no_maximum_flow(name):
    graph = topologies.find(name)()
    whole, ranked = nx.DiGraph(graph), gpus(graph)
    nx.set_edge_attributes(whole, {(a, b): d["bandwidth"] for a, b, d in graph.edges(data=True)}, "capacity")
    whole.add_edges_from(("source", gpu) for gpu in ranked[: len(ranked) // 2])
    whole.add_edges_from((gpu, "sink") for gpu in ranked[len(ranked) // 2 :])

    found = bisection(graph)
    assert found.is_exact
    assert found.up == pytest.approx(nx.maximum_flow_value(whole, "source", "sink"))


def test_the_two_ways_may_differ():
    graph = switch(2, B)
    graph.edges["gpu0", "switch"]["bandwidth"] = B / 4

    assert (bisection(graph).up, bisection(graph).down, bisection(graph).bandwidth) == (B / 4, B, B / 4)


def test_a_bound_by_cuts_is_never_below_and_here_is_exact(monkeypatch):
    graphs = [switch(8, B), dgx_h100(16, fabrics.parse("fat_tree:oversubscription=4")), ring(8, B)]
    exact = [bisection(graph).bandwidth for graph in graphs]
    monkeypatch.setattr(module, "LARGEST", 0)
    bounds = [bisection(graph) for graph in graphs]

    assert [bound.bandwidth for bound in bounds] == pytest.approx(exact)
    assert all("upper bound" in bound.how for bound in bounds)


def test_one_gpu_has_no_halves():
    assert bisection(switch(1)) is None


def test_a_slow_cable_far_from_the_gpus_counts():
    graph = switch(4, B)
    graph.add_node("other", kind="switch")
    for gpu in ("gpu2", "gpu3"):
        graph.remove_edges_from([(gpu, "switch"), ("switch", gpu)])
        cable(graph, gpu, "other", Link("link", B, us))
    cable(graph, "switch", "other", Link("fabric", B / 10, us))

    assert bisection(graph).bandwidth == B / 10


def test_16384_gpus_take_seconds():
    graph = dgx_h100(2048)
    start = time.process_time()

    assert bisection(graph).bandwidth == 2048 / 2 * 8 * 50 * GB
    assert time.process_time() - start < 10
