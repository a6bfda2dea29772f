"""Large-message bandwidths by closed form equal what the engine takes for the same flows, and known formulas."""

import networkx as nx
import numpy as np
import pytest

from algorithms import find
from algorithms.ir import Attention, Mesh, Partial, spmd
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.permute import permute
from sim.bandwidths import Bandwidths
from sim.routing import Routing
from sim.simulate import Site, simulate
from sim.trees import two_trees
from topologies.amd import frontier
from topologies.basic import fully_connected, ring, switch, two_level
from topologies.dgx import dgx_a100, dgx_h100
from topologies.fabrics import parse
from topologies.fabrics.dragonfly import dragonfly
from topologies.nvl72 import gb200_nvl72
from topologies.perlmutter import perlmutter
from topologies.units import GB


def one_round(rings):
    """A program in which every rank sends its keys to the next of every ring, all rings at once."""

    @spmd("ring")
    def program(me, problem):
        (i,), (p,) = me.coords, me.sizes
        q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
        for lane, order in enumerate(rings):
            permute(k, over="ring", shift=1, along=order, lane=lane)
        return Partial(*attend(q, k, v))

    return program


@pytest.mark.parametrize(
    "graph",
    [
        dgx_a100(1),
        dgx_a100(2),
        dgx_a100(3),
        dgx_h100(3),
        dgx_h100(4, parse("fat_tree:leaf=8,oversubscription=2")),
        perlmutter(1),
        perlmutter(3),
        fully_connected(5),
        two_level(2, 4),
    ],
    ids=lambda graph: graph.graph["name"],
)
def test_a_round_of_all_rings_takes_the_engine_as_long(graph):
    # each rank sends the same block along every ring: of a steady ring all-reduce this is one step
    found = Bandwidths(graph)
    p, n = found.network.ranks, 1 << 22
    problem = Attention(1, 1, 128, n * p, n * p)

    schedule = one_round(found.rings)(problem, Mesh(ring=p))
    timeline = simulate(schedule, Site(graph, routing=Routing("ideal")))

    sends = [number for number, op in enumerate(schedule.ops) if op.kind == "permute"]
    last = np.max(timeline.end[sends])
    assert n * 128 * 2 * len(found.rings) / last == pytest.approx(found.all_reduce, rel=0.02)


@pytest.mark.parametrize("graph", [switch(8), fully_connected(6), dgx_h100(1), perlmutter(1)])
def test_an_all_to_all_at_once_takes_the_engine_as_long(graph):
    found = Bandwidths(graph)
    p, n = found.network.ranks, 1 << 20
    problem = Attention(24, 24, 128, n * p, n * p)

    schedule = find("ulysses")["prefill"](problem, Mesh(ulysses=p))
    timeline = simulate(schedule, Site(graph), ways={"all_to_all": "direct"})

    first = next(number for number, op in enumerate(schedule.ops) if op.kind == "all_to_all")
    seconds = float(np.max(timeline.end[first]) - np.min(timeline.start[first]))
    sent = 3 * n * 24 * 128 * 2 * (p - 1) / p  # bytes of q, k, v that leave a rank
    assert sent / seconds == pytest.approx(found.all_to_all, rel=0.02)


def test_through_a_switch_a_ring_has_the_rate_of_a_port_and_in_a_mesh_that_of_all_links():
    assert Bandwidths(switch(8, 100 * GB)).all_reduce == pytest.approx(100 * GB)
    for n in (2, 3, 4, 5, 6, 7, 8):
        found = Bandwidths(fully_connected(n, 10 * GB))
        assert found.all_reduce == pytest.approx((n - 1) * 10 * GB)
        assert found.all_to_all == pytest.approx((n - 1) * 10 * GB)
    assert Bandwidths(ring(5, 10 * GB)).all_reduce == pytest.approx(20 * GB)  # to and fro


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 8])
def test_between_machines_rings_share_all_nics_equally_whatever_the_number_of_machines(nodes):
    assert Bandwidths(dgx_h100(nodes)).all_reduce == pytest.approx(8 * 0.97 * 50 * GB)
    assert Bandwidths(dgx_a100(nodes)).all_reduce == pytest.approx(8 * 0.97 * 25 * GB)


@pytest.mark.parametrize("nodes", [2, 4, 8])
def test_an_all_to_all_between_machines_is_bound_by_what_a_nic_sends(nodes):
    # of n - 1 others n - 8 are behind the NIC: busbw = (n-1) / (n-8) NIC; the rule N/(N-1) NIC counts n / (n-8)
    n = 8 * nodes
    assert Bandwidths(dgx_h100(nodes)).all_to_all == pytest.approx((n - 1) / (n - 8) * 0.97 * 50 * GB)


def test_two_trees_over_two_machines_send_half_as_much_by_a_nic_as_rings():
    # ring: 2 (n-1)/n bytes a byte by each NIC; trees: 1/2 up and 1/2 down, twice
    found = Bandwidths(two_level(2, 4, near=(1e15, 0.0), far=(10 * GB, 1e-6)))

    assert found.all_reduce == pytest.approx(4 * 10 * GB)
    assert found.tree == pytest.approx(0.92 * 2 * 7 / 8 * 4 * 10 * GB)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 13, 16])
def test_two_trees_each_join_all_and_no_place_is_inner_in_both(count):
    inner = []
    for tree in two_trees(count):
        graph = nx.DiGraph(tree)
        graph.add_nodes_from(range(count))
        assert nx.is_arborescence(graph.reverse())
        inner.append({parent for _, parent in tree})
    assert len(inner[0] & inner[1]) <= 1 + count % 2


def test_pairs_have_the_rate_of_their_narrowest_link_by_class():
    classes = Bandwidths(dgx_h100(2)).classes()

    assert [(one.way, one.pairs) for one in classes] == [("nvlink", 112), ("pcie nic", 16), ("pcie nic fabric", 112)]
    assert classes[0].bandwidth == pytest.approx(0.82 * 450 * GB)
    assert classes[1].bandwidth == classes[1].both_ways == pytest.approx(0.97 * 50 * GB)


def test_a_rack_is_one_island_and_two_are_joined_by_all_their_nics():
    assert len(Bandwidths(gb200_nvl72(1)).rings) == 1
    assert len(Bandwidths(gb200_nvl72(2)).rings) == 72


def test_every_ring_passes_every_rank_once():
    for graph in (dgx_a100(3), perlmutter(5), perlmutter(1), two_level(3, 3)):
        found = Bandwidths(graph)
        for order in found.rings:
            assert sorted(order) == list(range(found.network.ranks))


def test_one_gpu_has_no_ring_and_no_pair():
    found = Bandwidths(switch(1))

    assert (found.rings, found.tree, found.all_to_all, found.classes()) == ([], None, None, [])


def test_figures_do_not_depend_on_the_order_in_which_they_are_asked_for():
    one, other = Bandwidths(dgx_a100(2)), Bandwidths(dgx_a100(2))

    assert (one.all_reduce, one.all_to_all) == (lambda a, r: (r, a))(other.all_to_all, other.all_reduce)


@pytest.mark.parametrize(("machine", "nics", "nic"), [(frontier, 4, 25), (dgx_h100, 8, 50)])
def test_detours_through_switches_without_nics_let_rings_on_a_dragonfly_have_all_of_their_nics(machine, nics, nic):
    # 16 machines have 4 or 8 of a group's 32 switches. From each to the next go 4 or 8 rings: one by the one cable
    # between the two, the others by a third switch, of which there are 30. So the NICs bind, not the cable.
    found = Bandwidths(machine(16, dragonfly))

    assert len(found.rings) == nics
    assert found.all_reduce == pytest.approx(nics * 0.97 * nic * GB)
    shortest = found.graph.copy()
    shortest.graph["routing"] = "static"
    assert Bandwidths(shortest).by(found.rings) == pytest.approx(nic * GB)
