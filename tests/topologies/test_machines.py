"""Machines have the data sheet's parts: how many, how fast, and what hangs where."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.dgx import dgx_a100, dgx_h100, hgx_h200, hgx_h800
from topologies.laws import gpus
from topologies.nvl72 import gb200_nvl72
from topologies.perlmutter import perlmutter
from topologies.units import GB, TFLOP

# topology, GPUs, NVLink a GPU each way, NIC each way, bf16 peak, memory
DATA_SHEETS = [
    (dgx_a100, 8, 300 * GB, 25 * GB, 312 * TFLOP, 80 * GB),
    (dgx_h100, 8, 450 * GB, 50 * GB, 989.4 * TFLOP, 80 * GB),
    (hgx_h200, 8, 450 * GB, 50 * GB, 989.4 * TFLOP, 141 * GB),
    (hgx_h800, 8, 200 * GB, 50 * GB, 989.4 * TFLOP, 80 * GB),
    (gb200_nvl72, 72, 900 * GB, 50 * GB, 2500 * TFLOP, 186 * GB),
    (perlmutter, 4, 300 * GB, 25 * GB, 312 * TFLOP, 40 * GB),
]


def leaving(graph, node, kind):
    """Return the bytes/s of all links of a kind out of a node."""
    return sum(link["bandwidth"] for _, _, link in graph.out_edges(node, data=True) if link["kind"] == kind)


def entering(graph, node, kind):
    """Return the bytes/s of all links of a kind into a node."""
    return sum(link["bandwidth"] for _, _, link in graph.in_edges(node, data=True) if link["kind"] == kind)


@pytest.mark.parametrize(("machine", "each", "nvlink", "nic", "peak", "memory"), DATA_SHEETS)
@pytest.mark.parametrize("units", [1, 3])
def test_every_gpu_has_the_data_sheets_numbers(machine, each, nvlink, nic, peak, memory, units):
    graph = machine(units)
    assert len(gpus(graph)) == each * units
    for gpu in gpus(graph):
        assert leaving(graph, gpu, "nvlink") == entering(graph, gpu, "nvlink") == nvlink
        assert graph.nodes[gpu]["flop_rate"] == peak
        assert graph.nodes[gpu]["memory"] == memory
        if units > 1:
            own = graph.nodes[gpu]["nic"]
            assert leaving(graph, own, "nic") == entering(graph, own, "nic") == nic


@pytest.mark.parametrize(("machine", "each", "nvlink", "nic", "peak", "memory"), DATA_SHEETS)
def test_every_gpu_names_a_nic_of_its_host_that_no_other_names(machine, each, nvlink, nic, peak, memory):
    graph = machine(2)
    named = Counter(graph.nodes[gpu]["nic"] for gpu in gpus(graph))
    assert set(named.values()) == {1}
    assert all(graph.nodes[graph.nodes[gpu]["nic"]]["host"] == graph.nodes[gpu]["host"] for gpu in gpus(graph))


@settings(deadline=None, max_examples=30)
@given(st.sampled_from([row[0] for row in DATA_SHEETS]), st.integers(2, 6))
def test_the_rail_fabric_blocks_nobody(machine, units):
    # All NICs of a rail may send to other rails at once: the uplink carries what the ports below it carry.
    graph = machine(units)
    rails = [n for n in graph if n.startswith("rail")]
    assert len(rails) == (8 if machine not in (gb200_nvl72, perlmutter) else 4)
    for rail in rails:
        assert entering(graph, rail, "nic") == leaving(graph, rail, "fabric") == graph.edges[rail, "spine"]["bandwidth"]


@pytest.mark.parametrize("machine", [row[0] for row in DATA_SHEETS])
def test_one_machine_has_no_fabric(machine):
    assert not [n for n, kind in machine(1).nodes(data="kind") if kind == "switch"]


def test_a_dgx_a100_has_four_pcie_switches_of_two_gpus_and_two_nics():
    graph = dgx_a100(2)
    for node in range(2):
        for k in range(4):
            attached = {f"node{node}/{what}{i}" for what in ("gpu", "nic") for i in (2 * k, 2 * k + 1)}
            assert set(graph.successors(f"node{node}/pcie{k}")) == attached
    assert {d["bandwidth"] for _, _, d in graph.edges(data=True) if d["kind"] == "pcie"} == {31.5 * GB}


def test_a_dgx_h100_gives_each_gpu_pcie_5_to_a_nic_of_its_own():
    graph = dgx_h100(1)
    for i in range(8):
        assert graph.edges[f"node0/gpu{i}", f"node0/nic{i}"]["bandwidth"] == 63 * GB
        assert set(graph.successors(f"node0/nic{i}")) == {f"node0/gpu{i}"}


def test_nvl72_is_18_trays_of_four_gpus_on_one_nvlink_domain():
    graph = gb200_nvl72(2)
    hosts = Counter(graph.nodes[gpu]["host"] for gpu in gpus(graph))
    assert len(hosts) == 36
    assert set(hosts.values()) == {4}
    assert graph.out_degree("rack0/nvswitch") == graph.out_degree("rack1/nvswitch") == 72
    assert graph.out_degree("rail0") == 36 + 1  # one NIC a tray, and the spine


def test_perlmutter_joins_each_two_gpus_of_a_node_by_100_gb_each_way():
    graph = perlmutter(2)
    pairs = [(a, b, d) for a, b, d in graph.edges(data=True) if d["kind"] == "nvlink"]
    assert len(pairs) == 2 * 4 * 3
    assert {d["bandwidth"] for _, _, d in pairs} == {100 * GB}
    assert "nvswitch" not in {kind for _, kind in graph.nodes(data="kind")}


def test_assumptions_are_named_not_hidden():
    told = "\n".join(perlmutter(2).graph["assumptions"])
    assert "recalled" in told
    assert "dragonfly" in told
    assert "nic.latency: 0.80 us" in told
