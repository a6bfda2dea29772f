"""Machines and idealised clusters against their formulas: bisection by max-flow, diameter, degree, shortest paths."""

from itertools import combinations, pairwise, product
from math import factorial, prod

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import fabrics
from topologies.alps import alps_gh200
from topologies.amd import frontier, mi300x
from topologies.basic import fully_connected, ring, switch, two_level
from topologies.clouds import aws_p4d, aws_p5, azure_nd_a100_v4, azure_nd_h100_v5
from topologies.dgx import dgx_a100, dgx_h100, hgx_b200, hgx_h200, hgx_h800
from topologies.laws import check, gpus
from topologies.nvl72 import gb200_nvl72
from topologies.pcie import l40s_box, pcie_box, rtx4090_box
from topologies.perlmutter import perlmutter
from topologies.tpu import shape, tpu_v4, tpu_v5p
from topologies.units import GB, TB
from topologies.volta import dgx1_v100, dgx2

B = 450 * GB  # of a link of an idealised cluster

# machine, GPUs, bisection of one in bytes/s each way, diameter in links between two GPUs, neighbours of GPU 0
ONE = [
    (dgx1_v100, 8, (6 * 25 + 6) * GB, 2, 4 + 1),  # six NVLinks and QPI between the two halves of the cube
    (dgx2, 16, 48 * 25 * GB, 3, 1 + 1),
    (dgx_a100, 8, 4 * 300 * GB, 2, 1 + 1),
    (azure_nd_a100_v4, 8, 4 * 300 * GB, 2, 1 + 1),
    (aws_p4d, 8, 4 * 300 * GB, 2, 1 + 1),
    (dgx_h100, 8, 4 * 450 * GB, 2, 1 + 1),
    (azure_nd_h100_v5, 8, 4 * 450 * GB, 2, 1 + 1),
    (aws_p5, 8, 4 * 450 * GB, 2, 1 + 1),
    (hgx_h200, 8, 4 * 450 * GB, 2, 1 + 1),
    (hgx_h800, 8, 4 * 200 * GB, 2, 1 + 1),
    (hgx_b200, 8, 4 * 900 * GB, 2, 1 + 1),
    (gb200_nvl72, 72, 36 * 900 * GB, 2, 1 + 1),
    (perlmutter, 4, 2 * 2 * 100 * GB, 1, 3 + 1),
    (alps_gh200, 4, 2 * 2 * 150 * GB, 1, 3 + 1),
    (mi300x, 8, 4 * 4 * 64 * GB, 1, 7 + 1),
    (frontier, 8, 6 * 50 * GB, 2, 3),
    (l40s_box, 8, 22 * GB, 5, 1),
    (rtx4090_box, 8, 16 * GB, 3, 1),
    (pcie_box, 8, 16 * GB, 5, 1),
]
MACHINES = [row[0] for row in ONE]


def carried(graph, senders, receivers):
    """Return the bytes/s that some nodes can send to others, by max-flow."""
    graph = graph.copy()
    graph.add_edges_from(("from all", node) for node in senders)
    graph.add_edges_from((node, "to all") for node in receivers)
    return nx.maximum_flow_value(graph, "from all", "to all", capacity="bandwidth")


def bisection(graph):
    """Return the least that one half of the GPUs can send the other: of all halves, for up to eight GPUs."""
    ranks = gpus(graph)
    half = len(ranks) // 2
    halves = combinations(ranks, half) if len(ranks) <= 8 else [ranks[:half], ranks[half:]]
    return min(carried(graph, one, set(ranks) - set(one)) for one in halves)


def diameter(graph):
    """Return the links between the two GPUs farthest apart."""
    ranks = gpus(graph)
    return max(max(nx.single_source_shortest_path_length(graph, a)[b] for b in ranks) for a in ranks)


def equal_paths(graph, a, b):
    """Count the paths of fewest links."""
    return sum(1 for _ in nx.all_shortest_paths(graph, a, b))


@pytest.mark.parametrize(("machine", "count", "each_way", "far", "neighbours"), ONE)
def test_one_machine_is_its_formulas(machine, count, each_way, far, neighbours):
    graph = machine(1)
    assert len(gpus(graph)) == count
    assert bisection(graph) == pytest.approx(each_way)
    assert diameter(graph) == far
    assert graph.out_degree(gpus(graph)[0]) == graph.in_degree(gpus(graph)[0]) == neighbours


@pytest.mark.parametrize("machine", MACHINES)
def test_two_machines_exchange_what_their_nics_carry(machine):
    # Or what their GPUs reach these NICs with; nowhere is that less.
    graph = machine(2)
    ranks = gpus(graph)
    half = len(ranks) // 2
    nics = sum(
        d["bandwidth"] for a, _, d in graph.edges(data=True) if d["kind"] == "nic" and a.startswith(("node0", "rack0"))
    )
    assert carried(graph, ranks[:half], ranks[half:]) == pytest.approx(nics)


@pytest.mark.parametrize("machine", [dgx_h100, azure_nd_h100_v5, aws_p5, hgx_h200, hgx_h800, hgx_b200, gb200_nvl72])
def test_two_machines_with_a_nic_for_each_gpu_are_six_links_across(machine):
    # gpu - nic - rail - spine - rail - nic - gpu; on one rail two fewer. Machines of one rail and GPU have one path.
    graph = machine(2)
    ranks = gpus(graph)
    a, b = ranks[0], ranks[len(ranks) // 2]
    assert diameter(graph) == 6
    assert nx.shortest_path_length(graph, a, b) == 4
    assert equal_paths(graph, a, b) == 1


@pytest.mark.parametrize("machine", [row[0] for row in ONE if row[0] not in (dgx1_v100, frontier)])
def test_two_gpus_of_a_machine_have_one_shortest_path_unless_a_pcie_switch_is_as_near(machine):
    graph = machine(1)
    for a, b in pairwise(gpus(graph)[:8]):
        shared = set(graph.successors(a)) & set(graph.successors(b))
        assert equal_paths(graph, a, b) == (1 if graph.has_edge(a, b) else max(1, len(shared)))


@pytest.mark.parametrize("name", fabrics.names())
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_keeps_the_laws_on_every_fabric(machine, count, name):
    graph = machine(count, fabric=fabrics.find(name))
    check(graph)
    assert graph.graph["name"].startswith(f"{machine.__name__}({count})")
    assert ("fabric" in graph.graph) == (count > 1)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 9))
def test_a_switch_is_its_formulas(p):
    graph = switch(p, B)
    assert bisection(graph) == pytest.approx(p // 2 * B)
    assert (diameter(graph), equal_paths(graph, "gpu0", "gpu1")) == (2, 1)
    assert {graph.out_degree(gpu) for gpu in gpus(graph)} == {1}
    assert graph.out_degree("switch") == p


@settings(deadline=None, max_examples=30)
@given(st.integers(3, 9))
def test_a_ring_is_its_formulas(p):
    graph = ring(p, B)
    assert bisection(graph) == pytest.approx(2 * B)
    assert diameter(graph) == p // 2
    assert {degree for _, degree in graph.out_degree} == {2}
    for b in range(1, p):
        assert equal_paths(graph, "gpu0", f"gpu{b}") == (2 if 2 * b == p else 1)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 9))
def test_a_full_mesh_is_its_formulas(p):
    graph = fully_connected(p, B)
    assert bisection(graph) == pytest.approx(p // 2 * (p - p // 2) * B)
    assert (diameter(graph), equal_paths(graph, "gpu0", "gpu1")) == (1, 1)
    assert {degree for _, degree in graph.out_degree} == {p - 1}


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 3), st.integers(2, 4))
def test_two_levels_are_their_formulas(nodes, each):
    # Between machines all goes over the far switch; inside one, over the near one or, as few links away, the far one.
    near, far = 450 * GB, 50 * GB
    graph = two_level(nodes, each, (near, 0.0), (far, 0.0))
    ranks = gpus(graph)
    if nodes == 2:
        assert carried(graph, ranks[:each], ranks[each:]) == pytest.approx(each * far)
    if nodes == 1:
        assert bisection(graph) == pytest.approx(each // 2 * (near + far))
    else:
        assert equal_paths(graph, ranks[0], ranks[each]) == 1
    assert (diameter(graph), equal_paths(graph, ranks[0], ranks[1])) == (2, 2)
    assert {graph.out_degree(gpu) for gpu in ranks} == {2}


def test_a_cube_of_64_chips_is_its_formulas():
    # 16 rings are cut in two places each.
    graph = tpu_v4(64)
    assert carried(graph, gpus(graph)[:32], gpus(graph)[32:]) == pytest.approx(2 * 16 * 50 * GB)
    assert diameter(graph) == 3 * 2


@settings(deadline=None, max_examples=12)
@given(st.sampled_from([128, 192, 256, 448, 512, 1024]))
def test_a_torus_has_the_bisection_of_its_longest_side_and_half_of_each_as_diameter(chips):
    a, b, c = shape(chips, 4096)
    graph = tpu_v5p(chips)
    place = {chip: tuple(map(int, chip.removeprefix("chip").split("."))) for chip in graph}
    cut = sum(d["bandwidth"] for x, y, d in graph.edges(data=True) if place[x][2] < c // 2 <= place[y][2])
    assert cut == pytest.approx(2 * a * b * 100 * GB)
    assert max(nx.single_source_shortest_path_length(graph, "chip0.0.0").values()) == a // 2 + b // 2 + c // 2


def test_a_whole_pod_has_the_published_bisection():
    # 25.6e12 B/s from the links; the page has 24 TB/s, which is as much if its TB is 2^40.
    graph = tpu_v4(4096)
    below = [n for n in graph if int(n.removeprefix("chip").split(".")[2]) < 8]
    cut = sum(d["bandwidth"] for _, _, d in nx.edge_boundary(graph, below, data=True))
    assert cut == pytest.approx(25.6 * TB)
    assert cut == pytest.approx(24 * 2**40, rel=0.04)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from([4, 8, 16, 32, 64, 128]), st.data())
def test_as_many_shortest_paths_lead_through_a_torus_as_there_are_orders_of_the_steps(chips, data):
    # Steps along each axis in any order; each axis of which the target is half way round may be taken either way.
    graph = tpu_v4(chips)
    sides, is_torus = shape(chips, 4096), chips >= 64
    target = data.draw(st.sampled_from(list(product(*map(range, sides)))))
    steps = [min(x, n - x) if is_torus else x for x, n in zip(target, sides, strict=True)]
    both = sum(is_torus and 2 * x == n for x, n in zip(target, sides, strict=True))
    orders = factorial(sum(steps)) // prod(map(factorial, steps))
    goal = f"chip{'.'.join(map(str, target))}"
    assert nx.shortest_path_length(graph, "chip0.0.0", goal) == sum(steps)
    assert equal_paths(graph, "chip0.0.0", goal) == orders * 2**both
