"""What a repair gives: never less than before, and never anything for a fault that is not there."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.network import Network
from sim.repairs import repairs
from tests.validation.a100_box import box
from topologies.basic import switch
from topologies.dgx import dgx_a100, dgx_h100
from topologies.fabrics import parse
from topologies.laws import check
from topologies.perlmutter import perlmutter
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


def test_a_gpu_that_names_a_far_nic_is_taken_to_use_it():
    # over 20 GB/s between the sockets, in place of a NIC of 24.25
    graph = box(2, OWN)
    graph.nodes["node0/gpu0"]["nic"] = "node0/nic7"

    _, (one,) = repairs(graph)

    assert one.finding.what == "GPU uses a far NIC"
    assert one.pair[0] == "node0/gpu0"
    assert (one.send_recv, one.send_recv_mended) == pytest.approx((20 * GB, 0.97 * 25 * GB))
    assert one.all_to_all < one.all_to_all_mended


def test_a_bound_gpu_sends_and_is_sent_to_by_its_nic_and_others_as_before():
    graph = box(2, OWN)
    before = Network(graph)
    graph.nodes["node1/gpu2"].update(nic="node1/nic7", bound=True)
    network = Network(graph)
    source, target = np.divmod(np.arange(network.ranks**2), network.ranks)

    for s, t in zip(source, target, strict=True):
        path = [network.links[link] for link in network.route([s], [t])[0] if link != network.pad]
        if 10 in (s, t) and s // 8 != t // 8:
            assert any("node1/nic7" in link for link in path)
            assert all(a[1] == b[0] for a, b in pairwise(path))
            assert (path[0][0], path[-1][1]) == (network.gpus[s], network.gpus[t])
        else:
            assert path == [before.links[link] for link in before.route([s], [t])[0] if link != before.pad]


def test_more_nics_never_make_rings_worse():
    # two NICs, each on a switch of its own; the GPUs of the other switches go through the CPUs
    _, found = repairs(box(2, ["pcie0", "pcie2"]))

    (one,) = [one for one in found if one.finding.what == "GPUs share a NIC"]
    assert one.all_reduce_mended >= one.all_reduce


def test_without_gpudirect_the_copies_cost_what_was_measured_or_are_said_not_to_be_modelled():
    (slow,), (unknown,) = (repairs(machine(2, parse("rail:gpudirect=0")))[1] for machine in (perlmutter, dgx_h100))

    assert (slow.send_recv, slow.send_recv_mended) == pytest.approx((16 * GB, 0.97 * 25 * GB))
    assert slow.gains
    assert not unknown.gains
    assert "not modelled" in unknown.finding.how_bad
    (halved,) = repairs(dgx_a100(2, parse("rail:gpudirect=0")))[1]
    assert halved.send_recv == pytest.approx(0.87 * 31.5 / 2 * GB)  # up and down one link of the switch
