"""Idealised clusters have the links that closed forms assume."""

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.basic import fully_connected, ring, switch, two_level
from topologies.laws import check, gpus
from topologies.units import GB, ns, us


@settings(deadline=None)
@given(st.integers(1, 40))
def test_numbers_of_links(p):
    assert switch(p).number_of_edges() == 2 * p
    assert ring(p).number_of_edges() == (0 if p == 1 else 2 if p == 2 else 2 * p)
    assert fully_connected(p).number_of_edges() == p * (p - 1)


@pytest.mark.parametrize("topology", [switch, ring, fully_connected])
def test_the_numbers_are_the_callers(topology):
    graph = topology(4, 50 * GB, 1 * us, 1e12)
    check(graph)
    assert {(d["bandwidth"], d["latency"]) for _, _, d in graph.edges(data=True)} == {(50 * GB, 1 * us)}
    assert {graph.nodes[gpu]["flop_rate"] for gpu in gpus(graph)} == {1e12}
    assert not any("memory" in data for _, data in graph.nodes(data=True))


@pytest.mark.parametrize("topology", [switch, ring, fully_connected])
@pytest.mark.parametrize("bad", [{"bandwidth": 0.0}, {"latency": -1.0}, {"flop_rate": float("nan")}])
def test_the_callers_bad_numbers_break_a_law(topology, bad):
    with pytest.raises(ValueError, match=r"^G[345]: "):
        check(topology(3, **bad))


@given(st.integers(2, 30), st.data())
def test_a_ring_is_as_far_as_the_shorter_way_round(p, data):
    a, b = data.draw(st.integers(0, p - 1)), data.draw(st.integers(0, p - 1))
    hops = nx.shortest_path_length(ring(p), f"gpu{a}", f"gpu{b}")
    assert hops == min((a - b) % p, (b - a) % p)


def test_a_switch_is_two_links_from_gpu_to_gpu():
    graph = switch(5, latency=500 * ns)
    assert nx.shortest_path_length(graph, "gpu0", "gpu4", weight="latency") == pytest.approx(1 * us)


def test_fully_connected_is_refused_before_it_fills_the_memory():
    with pytest.raises(ValueError, match="at most 1024, got 100000"):
        fully_connected(100_000)


def test_two_levels_are_near_inside_a_machine_and_far_outside():
    graph = two_level(2, 4)
    near = nx.shortest_path(graph, "gpu0", "gpu3", weight="latency")
    far = nx.shortest_path(graph, "gpu0", "gpu4", weight="latency")
    assert near == ["gpu0", "node0/nvswitch", "gpu3"]
    assert far == ["gpu0", "switch", "gpu4"]
    assert nx.path_weight(graph, near, "latency") == pytest.approx(500 * ns)
    assert nx.path_weight(graph, far, "latency") == pytest.approx(2 * us)
    assert {graph.edges[hop]["bandwidth"] for hop in nx.utils.pairwise(far)} == {50 * GB}
