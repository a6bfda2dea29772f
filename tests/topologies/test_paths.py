"""Where messages go: the fastest path on which no other GPU has to forward."""

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.dgx import dgx_a100, dgx_h100, hgx_h200, hgx_h800
from topologies.laws import gpus
from topologies.nvl72 import gb200_nvl72
from topologies.perlmutter import perlmutter
from topologies.units import GB, us


def route(graph: nx.DiGraph, source: str, target: str) -> list[str]:
    """Return the path of least latency that passes through no third GPU."""
    usable = [n for n, kind in graph.nodes(data="kind") if kind != "gpu" or n in (source, target)]
    return nx.shortest_path(graph.subgraph(usable), source, target, weight="latency")


def latency(graph: nx.DiGraph, source: str, target: str) -> float:
    """Return the seconds of that path."""
    return nx.path_weight(graph, route(graph, source, target), "latency")


@pytest.mark.parametrize("machine", [dgx_a100, dgx_h100, hgx_h200, hgx_h800])
def test_inside_a_machine_nvswitch_carries_even_gpus_of_one_pcie_switch(machine):
    graph = machine(2)
    for peer in range(1, 8):
        assert route(graph, "node1/gpu0", f"node1/gpu{peer}") == [
            "node1/gpu0",
            "node1/nvswitch",
            f"node1/gpu{peer}",
        ]


@pytest.mark.parametrize("machine", [dgx_h100, hgx_h200, hgx_h800])
def test_the_same_rail_of_two_machines_is_one_switch_apart(machine):
    path = route(machine(3), "node0/gpu5", "node2/gpu5")
    assert path == ["node0/gpu5", "node0/nic5", "rail5", "node2/nic5", "node2/gpu5"]


def test_another_rail_is_reached_up_and_down_through_the_spine():
    path = route(dgx_h100(3), "node0/gpu5", "node2/gpu1")
    assert path[1:-1] == ["node0/nic5", "rail5", "spine", "rail1", "node2/nic1"]


def test_a_dgx_a100_leaves_by_a_nic_of_its_own_pcie_switch():
    path = route(dgx_a100(2), "node0/gpu6", "node1/gpu6")
    assert path[1] == "node0/pcie3"
    assert path[-2] == "node1/pcie3"
    assert path[2] in ("node0/nic6", "node0/nic7")


def test_perlmutter_uses_the_cable_between_two_gpus_and_its_own_nic_outside():
    graph = perlmutter(2)
    assert route(graph, "node0/gpu1", "node0/gpu3") == ["node0/gpu1", "node0/gpu3"]
    path = route(graph, "node0/gpu1", "node1/gpu1")
    assert path == ["node0/gpu1", "node0/nic1", "group0/switch0", "node1/nic1", "node1/gpu1"]


def test_nvl72_uses_nvlink_across_trays_and_nics_across_racks():
    graph = gb200_nvl72(2)
    assert route(graph, "rack0/tray0/gpu0", "rack0/tray17/gpu3")[1:-1] == ["rack0/nvswitch"]
    path = route(graph, "rack0/tray0/gpu2", "rack1/tray17/gpu2")
    assert path[1:-1] == ["rack0/tray0/nic2", "rail2", "rack1/tray17/nic2"]


def test_latencies_add_up_to_the_estimated_paths():
    assert latency(dgx_h100(1), "node0/gpu0", "node0/gpu7") == pytest.approx(1.0 * us)
    assert latency(dgx_h100(2), "node0/gpu0", "node1/gpu0") == pytest.approx((1.6 + 1.0) * us)
    assert latency(dgx_h100(2), "node0/gpu0", "node1/gpu1") == pytest.approx((1.6 + 1.0 + 2 * 0.25) * us)
    assert latency(dgx_a100(2), "node0/gpu0", "node1/gpu0") == pytest.approx((1.6 + 1.5) * us)
    assert latency(perlmutter(1), "node0/gpu0", "node0/gpu1") == pytest.approx(0.7 * us)
    assert latency(perlmutter(5), "node0/gpu0", "node4/gpu1") == pytest.approx((1.6 + 1.0 + 0.35) * us)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([dgx_a100, dgx_h100, perlmutter]), st.integers(2, 4), st.data())
def test_no_path_between_machines_is_faster_than_a_nic_or_touches_nvlink(machine, nodes, data):
    graph = machine(nodes)
    source, target = (data.draw(st.sampled_from(gpus(graph))) for _ in range(2))
    if graph.nodes[source]["host"] == graph.nodes[target]["host"]:
        return
    hops = [graph.edges[hop] for hop in nx.utils.pairwise(route(graph, source, target))]
    assert min(hop["bandwidth"] for hop in hops) == (50 if machine is dgx_h100 else 25) * GB
    assert "nvlink" not in {hop["kind"] for hop in hops}
