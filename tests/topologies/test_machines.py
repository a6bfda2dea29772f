"""Machines have the data sheet's parts: how many, how fast, and what hangs where."""

import json
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.alps import alps_gh200
from topologies.amd import FRONTIER_LINKS, frontier, mi300x
from topologies.clouds import aws_p4d, aws_p5, azure_nd_a100_v4, azure_nd_h100_v5
from topologies.dgx import dgx_a100, dgx_h100, hgx_b200, hgx_h200, hgx_h800
from topologies.fabrics.rail import rail
from topologies.laws import gpus
from topologies.nvl72 import gb200_nvl72
from topologies.pcie import l40s_box, pcie_box, rtx4090_box
from topologies.perlmutter import perlmutter
from topologies.tpu import shape, tpu_v4, tpu_v5p
from topologies.units import GB, TFLOP, us
from topologies.volta import CUBE_MESH, dgx1_v100, dgx2

FACTS = Path(__file__).parents[2] / ".." / "shared" / "facts" / "hardware.json"

# topology, GPUs, NICs of a host, link, its bytes/s of a GPU each way, NIC each way, bf16 peak (V100: fp16), memory
DATA_SHEETS = [
    (dgx1_v100, 8, 4, "nvlink", 150 * GB, 12.5 * GB, 125 * TFLOP, 32 * GB),
    (dgx2, 16, 8, "nvlink", 150 * GB, 12.5 * GB, 125 * TFLOP, 32 * GB),
    (dgx_a100, 8, 8, "nvlink", 300 * GB, 25 * GB, 312 * TFLOP, 80 * GB),
    (dgx_h100, 8, 8, "nvlink", 450 * GB, 50 * GB, 989.4 * TFLOP, 80 * GB),
    (hgx_h200, 8, 8, "nvlink", 450 * GB, 50 * GB, 989.4 * TFLOP, 141 * GB),
    (hgx_h800, 8, 8, "nvlink", 200 * GB, 50 * GB, 989.4 * TFLOP, 80 * GB),
    (hgx_b200, 8, 8, "nvlink", 900 * GB, 50 * GB, 2250 * TFLOP, 180 * GB),
    (gb200_nvl72, 72, 4, "nvlink", 900 * GB, 50 * GB, 2500 * TFLOP, 186 * GB),
    (azure_nd_a100_v4, 8, 8, "nvlink", 300 * GB, 25 * GB, 312 * TFLOP, 40 * GB),
    (azure_nd_h100_v5, 8, 8, "nvlink", 450 * GB, 50 * GB, 989.4 * TFLOP, 80 * GB),
    (aws_p4d, 8, 4, "nvlink", 300 * GB, 12.5 * GB, 312 * TFLOP, 40 * GB),
    (aws_p5, 8, 8, "nvlink", 450 * GB, 50 * GB, 989.4 * TFLOP, 80 * GB),
    (perlmutter, 4, 4, "nvlink", 300 * GB, 25 * GB, 312 * TFLOP, 40 * GB),
    (alps_gh200, 4, 4, "nvlink", 450 * GB, 25 * GB, 989.4 * TFLOP, 96 * GB),
    (mi300x, 8, 8, "xgmi", 448 * GB, 50 * GB, 1307.4 * TFLOP, 192 * GB),
    (rtx4090_box, 8, 2, "pcie", 31.5 * GB, 12.5 * GB, 165.2 * TFLOP, 24 * GB),
    (pcie_box, 8, 2, "pcie", 31.5 * GB, 12.5 * GB, 165.2 * TFLOP, 24 * GB),
    (l40s_box, 8, 2, "pcie", 31.5 * GB, 12.5 * GB, 362 * TFLOP, 48 * GB),
]
MACHINES = [*(row[0] for row in DATA_SHEETS), frontier]


def leaving(graph, node, kind):
    """Return the bytes/s of all links of a kind out of a node; NVLink-C2C, to a CPU, is not counted."""
    links = graph.out_edges(node, data=True)
    return sum(d["bandwidth"] for _, head, d in links if d["kind"] == kind and not is_chip_to_chip(graph, head, kind))


def entering(graph, node, kind):
    """Return the bytes/s of all links of a kind into a node."""
    links = graph.in_edges(node, data=True)
    return sum(d["bandwidth"] for tail, _, d in links if d["kind"] == kind and not is_chip_to_chip(graph, tail, kind))


def is_chip_to_chip(graph, node, kind):
    return kind == "nvlink" and graph.nodes[node]["kind"] == "cpu"


@pytest.mark.parametrize(("machine", "each", "nics", "kind", "link", "nic", "peak", "memory"), DATA_SHEETS)
@pytest.mark.parametrize("units", [1, 3])
def test_every_gpu_has_the_data_sheets_numbers(machine, each, nics, kind, link, nic, peak, memory, units):
    graph = machine(units)
    assert len(gpus(graph)) == each * units
    for gpu in gpus(graph):
        assert leaving(graph, gpu, kind) == entering(graph, gpu, kind) == link
        assert graph.nodes[gpu]["flop_rate"] == peak
        assert graph.nodes[gpu]["memory"] == memory
        if units > 1:
            own = graph.nodes[gpu]["nic"]
            assert leaving(graph, own, "nic") == entering(graph, own, "nic") == nic


@pytest.mark.parametrize(("machine", "nics"), [*((row[0], row[2]) for row in DATA_SHEETS), (frontier, 4)])
def test_the_nics_of_a_host_are_shared_out_evenly_among_its_gpus(machine, nics):
    graph = machine(2)
    by_nic = Counter(graph.nodes[gpu]["nic"] for gpu in gpus(graph))
    hosts = Counter(graph.nodes[nic]["host"] for nic in by_nic)
    assert set(hosts.values()) == {nics}
    assert set(by_nic.values()) == {len(gpus(graph)) / len(hosts) / nics}
    assert all(graph.nodes[graph.nodes[gpu]["nic"]]["host"] == graph.nodes[gpu]["host"] for gpu in gpus(graph))


@pytest.mark.parametrize("machine", MACHINES)
def test_no_nic_is_nearer_to_a_gpu_than_the_one_it_names(machine):
    # As near: of a PCIe switch with two. Frontier's even GCDs reach a NIC through their sibling.
    graph = machine(1)
    for gpu in gpus(graph):
        others = [x for x in gpus(graph) if x != gpu and machine is not frontier]
        near = nx.single_source_dijkstra_path_length(nx.restricted_view(graph, others, []), gpu, weight="latency")
        hops = nx.single_source_shortest_path_length(nx.restricted_view(graph, others, []), gpu)
        nics = [node for node, kind in graph.nodes(data="kind") if kind == "nic" and node in near]
        assert graph.nodes[gpu]["nic"] in nics
        assert near[graph.nodes[gpu]["nic"]] == pytest.approx(min(near[nic] for nic in nics))
        assert hops[graph.nodes[gpu]["nic"]] == min(hops[nic] for nic in nics)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(DATA_SHEETS), st.integers(2, 6))
def test_the_rail_fabric_blocks_nobody(row, units):
    # All NICs of a rail may send to other rails at once: the uplink carries what the ports below it carry.
    graph = row[0](units, rail)
    rails = [n for n in graph if n.startswith("rail")]
    assert len(rails) == row[2]
    for one in rails:
        assert entering(graph, one, "nic") == leaving(graph, one, "fabric") == graph.edges[one, "spine"]["bandwidth"]


@pytest.mark.parametrize("machine", MACHINES)
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


@pytest.mark.parametrize("links", [CUBE_MESH, FRONTIER_LINKS])
def test_the_tables_of_links_name_each_pair_once(links):
    assert all(a < b for a, b in links)
    assert {node for pair in links for node in pair} == set(range(8))


@pytest.mark.skipif(not FACTS.exists(), reason="the facts folder is not beside this repository")
@pytest.mark.parametrize(("links", "system"), [(CUBE_MESH, "DGX-1 V100"), (FRONTIER_LINKS, "Frontier node")])
def test_the_tables_of_links_agree_with_the_collected_facts(links, system):
    known = next(row["links"] for row in json.loads(FACTS.read_text())["systems"] if row["name"] == system)
    assert {f"{a}-{b}": count for (a, b), count in links.items()} == known


def test_every_gpu_of_a_dgx1_has_six_nvlinks_and_every_second_meets_its_like_on_the_other_half():
    counts = [sum(n for pair, n in CUBE_MESH.items() if gpu in pair) for gpu in range(8)]
    assert counts == [6] * 8
    assert [(a, b) for a, b in CUBE_MESH if a < 4 <= b] == [(0, 4), (1, 5), (2, 6), (3, 7)]


def test_a_gcd_of_frontier_has_eight_links_with_those_to_the_cpu_and_the_nic():
    graph = frontier(1)
    for i in range(8):
        assert leaving(graph, f"node0/gpu{i}", "xgmi") == (8 - 1 - i % 2) * 50 * GB
        assert ("node0/nic" in str(list(graph.successors(f"node0/gpu{i}")))) == bool(i % 2)


def test_a_dgx1_has_two_pcie_switches_a_cpu_each_with_two_gpus_and_a_nic():
    graph = dgx1_v100(1)
    for k in range(4):
        attached = {f"node0/gpu{2 * k}", f"node0/gpu{2 * k + 1}", f"node0/nic{k}", f"node0/cpu{k // 2}"}
        assert set(graph.successors(f"node0/pcie{k}")) == attached
    assert graph.edges["node0/cpu0", "node0/cpu1"]["kind"] == "socket"


def test_a_dgx2_has_48_nvlinks_between_its_boards():
    graph = dgx2(1)
    assert graph.edges["node0/nvswitch0", "node0/nvswitch1"]["bandwidth"] == 48 * 25 * GB
    assert [graph.out_degree(f"node0/nvswitch{k}") for k in range(2)] == [8 + 1, 8 + 1]


def test_an_efa_machine_answers_far_later_than_one_on_infiniband():
    waits = {m.__name__: m(2).edges["node0/nic0", "rail0"]["latency"] for m in (aws_p4d, aws_p5, dgx_h100)}
    assert waits == {"aws_p4d": 31 * us, "aws_p5": 12 * us, "dgx_h100": 0.8 * us}


def test_without_peer_to_peer_gpus_of_one_pcie_switch_meet_in_the_cpu():
    graph = pcie_box(1)
    path = nx.shortest_path(graph, "node0/gpu0", "node0/gpu1")
    assert path == ["node0/gpu0", "node0/pcie0/up", "node0/cpu0", "node0/pcie0/down", "node0/gpu1"]
    assert nx.shortest_path(graph, "node0/gpu0", "node0/nic0")[2] == "node0/cpu0"


@pytest.mark.parametrize(
    ("machine", "near", "far"),
    [(rtx4090_box, 4.2, 4.8), (pcie_box, 4.2, 4.8), (l40s_box, 1.5, 2.8), (dgx1_v100, 0.7, 2.8)],
)
def test_gpus_of_one_socket_and_of_two_are_as_far_apart_as_estimated(machine, near, far):
    graph = machine(1)
    others = [f"node0/gpu{i}" for i in (1, 2, 3, 4, 6, 7)]
    assert nx.dijkstra_path_length(graph, "node0/gpu0", "node0/gpu1", "latency") == pytest.approx(near * us)
    alone = nx.restricted_view(graph, others, [])
    assert nx.dijkstra_path_length(alone, "node0/gpu0", "node0/gpu5", "latency") == pytest.approx(far * us)


@pytest.mark.parametrize(
    ("chips", "sides"),
    [
        (4, (1, 2, 2)),
        (8, (2, 2, 2)),
        (16, (2, 2, 4)),
        (32, (2, 4, 4)),
        (64, (4, 4, 4)),
        (128, (4, 4, 8)),
        (256, (4, 8, 8)),
        (448, (4, 4, 28)),
        (512, (8, 8, 8)),
        (1024, (8, 8, 16)),
        (2048, (8, 16, 16)),
        (4096, (16, 16, 16)),
        (6144, (16, 16, 24)),
    ],
)
def test_a_tpu_slice_is_as_near_a_cube_as_there_is(chips, sides):
    assert shape(chips, 6144) == sides


@pytest.mark.parametrize(
    ("chips", "near"), [(1, "is 4"), (3, "is 4"), (5, "are 4 and 8"), (60, "are 32 and 64"), (100, "are 64 and 128")]
)
def test_a_tpu_slice_of_another_size_is_refused_with_the_nearest(chips, near):
    with pytest.raises(ValueError, match=rf"^gpus {chips}: a TPU slice has .* chips; nearest {near}$"):
        tpu_v4(chips)


@pytest.mark.parametrize(("slice_of", "most"), [(tpu_v4, 4096), (tpu_v5p, 6144)])
def test_a_tpu_slice_is_no_larger_than_a_pod_gives(slice_of, most):
    with pytest.raises(ValueError, match=f"^gpus must be at most {most}, got {most + 64}$"):
        slice_of(most + 64)


@settings(deadline=None, max_examples=10)
@given(st.sampled_from([64, 128, 192, 256, 448, 512]), st.sampled_from([(tpu_v4, 300 * GB), (tpu_v5p, 600 * GB)]))
def test_every_chip_of_a_torus_has_six_links(chips, machine):
    graph = machine[0](chips)
    assert {degree for _, degree in graph.out_degree} == {6}
    assert {leaving(graph, chip, "ici") for chip in graph} == {machine[1]}


def test_assumptions_are_named_not_hidden():
    told = "\n".join(perlmutter(2).graph["assumptions"])
    assert "recalled" in told
    assert "a cable between two switches is as fast as a NIC" in told
    assert "nic.latency: 0.80 us" in told


@pytest.mark.parametrize("machine", [perlmutter, alps_gh200, frontier])
def test_slingshot_machines_are_groups_of_128_nodes_on_32_switches(machine):
    # 16 NICs a switch, four a node: the 129th node begins another group
    for nodes, groups in ((4, 1), (128, 1), (129, 2)):
        found = dict(machine(nodes).nodes(data="group"))
        assert {group for group in found.values() if group is not None} == set(range(groups))
    assert sum(group is not None for group in found.values()) == 2 * 32
