"""Adaptive routing: least loaded of equal paths, detours where they pay, between the ideal and the static worst."""

from functools import partial
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms import find
from algorithms.ir import Attention, Mesh
from sim.network import Network
from sim.routing import Routing
from sim.simulate import Site, simulate
from sim.twins import merged
from tests.sim.commands import answer, shown
from tests.sim.test_routing import POD_TREE, TWO_TIERS, permuted
from topologies.dgx import dgx_h100
from topologies.fabrics.dragonfly import dragonfly
from topologies.fabrics.torus import torus

ADAPTIVE, STATIC = Routing("adaptive"), Routing()
FLIES = [
    dgx_h100(3, partial(dragonfly, hosts=2, links=1)),  # 3 groups of 4 switches of 2 NICs
    dgx_h100(12, partial(dragonfly, hosts=4, switches=4, links=2)),  # 6 groups
    dgx_h100(4, partial(dragonfly, hosts=1, switches=4, links=3)),  # 8 groups
    dgx_h100(4, partial(dragonfly, hosts=8)),  # one group
]


def paths(network, source, destination):
    """The nodes on each route."""
    for row in network.route(source, destination):
        links = [network.links[link] for link in row if link != network.pad]
        assert all(a[1] == b[0] for a, b in pairwise(links))
        yield [links[0][0], *(head for _, head in links)] if links else []


def hottest(network, source, destination):
    """The seconds that the most loaded link would take for a byte of each pair."""
    route = network.route(source, destination)
    return (np.bincount(route[route != network.pad], minlength=network.pad) / network.capacity[:-1]).max()


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(FLIES), st.data())
def test_a_path_on_a_dragonfly_is_minimal_or_through_one_group_more(graph, data):
    network = Network(graph, routing=ADAPTIVE)
    order = data.draw(st.permutations(range(network.ranks)))
    static = Network(graph, routing=STATIC)
    source = np.arange(network.ranks)
    for s, (path, first) in enumerate(zip(paths(network, source, order), paths(static, source, order), strict=True)):
        if s == order[s]:
            assert path == []
            continue
        assert (path[0], path[-1]) == (network.gpus[s], network.gpus[order[s]])
        assert len(set(path)) == len(path)
        assert [n for n in path if "group" not in n] == [n for n in first if "group" not in n]
        groups = [graph.nodes[node]["group"] for node in path if "group" in node]
        visited = [group for k, group in enumerate(groups) if k == 0 or group != groups[k - 1]]
        assert len(visited) <= (1 if groups and groups[0] == groups[-1] else 3)
        assert all(groups.count(group) <= (2 if len(visited) > 1 else 3) for group in set(groups))


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([TWO_TIERS, POD_TREE]), st.permutations(range(32)))
def test_on_a_tree_adaptive_lies_between_the_ideal_and_the_static_worst(graph, order):
    _, loads = permuted(graph, order)
    adaptive, static = (loads(Network(graph, routing=routing)).max() for routing in (ADAPTIVE, STATIC))
    assert loads(Network(merged(graph))).max() <= adaptive * (1 + 1e-12)
    assert adaptive <= static * (1 + 1e-12)


@pytest.mark.parametrize("graph", [TWO_TIERS, POD_TREE], ids=str)
@pytest.mark.parametrize("name, axes", [("ring", {"ring": 32}), ("attention2d", {"row": 4, "col": 8})])
def test_a_run_lies_between_the_ideal_and_static(name, axes, graph):
    schedule = find(name)["prefill"](Attention(32, 32, 128, 32 << 12, 32 << 12), Mesh(**axes))
    ideal, adaptive, static = (
        simulate(schedule, graph, routing=Routing(routing)).makespan for routing in ("ideal", "adaptive", "static")
    )
    assert ideal <= adaptive * (1 + 1e-9)
    assert adaptive <= static * (1 + 1e-9)


def test_all_equal_paths_of_a_tree_are_filled_alike():
    # every rank of a leaf sends to the next leaf: 8 flows, 4 spines, 2 to each
    network = Network(TWO_TIERS, routing=ADAPTIVE)
    rank = np.arange(32)
    route = network.route(rank, (rank + 8) % 32)
    counts = np.bincount(route[route != network.pad], minlength=network.pad)
    up = [network.link(f"leaf{leaf}", f"spine{spine}") for leaf in range(4) for spine in range(4)]
    assert counts[up].tolist() == [2] * 16
    assert network.choices == (32, 4)


@pytest.mark.parametrize("shift", [1, 2])
def test_where_all_of_a_group_send_to_one_other_detours_pay(shift):
    # 6 groups of 16 NICs, 2 cables between each two: minimally 16 flows share 2 cables. 8 other cables leave a group,
    # and of d detours each takes two cables: at best loads (16 - d)/2 = 2d/8 are equal, d = 10 2/3, loads of 2 2/3
    graph = FLIES[1]
    rank = np.arange(96)
    target = (rank + 16 * shift) % 96
    port = 1 / graph.edges["group0/switch0", "group0/switch1"]["bandwidth"]
    static, adaptive = (hottest(Network(graph, routing=routing), rank, target) for routing in (STATIC, ADAPTIVE))

    assert static >= 8 * port * (1 - 1e-12)
    assert 8 / 3 * port <= adaptive <= 0.75 * static


def test_neighbours_in_a_group_spread_over_its_switches():
    # two switches of a group share one cable: 8 NICs of one send to 8 of the other
    graph = FLIES[3]
    rank = np.arange(32)
    target = (rank + 8) % 32
    port = 1 / graph.edges["group0/switch0", "group0/switch1"]["bandwidth"]

    assert hottest(Network(graph, routing=STATIC), rank, target) == pytest.approx(8 * port)
    assert hottest(Network(graph, routing=ADAPTIVE), rank, target) <= 6 * port


def test_without_load_the_minimal_path_is_taken():
    for graph in FLIES:
        for s, d in ((0, 31 % len(Network(graph).gpus)), (7, 8), (3, 23)):
            network = Network(graph, routing=ADAPTIVE)
            (path,), (first,) = (list(paths(n, [s], [d])) for n in (network, Network(graph, routing=STATIC)))
            assert len(path) == len(first)


def test_routes_are_those_of_the_pairs_asked_for_together_whatever_was_before():
    once, twice = (Network(FLIES[1], routing=ADAPTIVE) for _ in range(2))
    rank = np.arange(96)
    twice.route(rank, (rank + 5) % 96)
    twice.route(rank[::-1], (rank[::-1] + 16) % 96)
    assert (once.route(rank, (rank + 16) % 96) == twice.route(rank, (rank + 16) % 96)).all()
    assert once.choices[0] <= twice.choices[0]


def test_a_torus_has_equal_paths_to_choose_from():
    graph = dgx_h100(9, partial(torus, x=3, y=3))
    rank = np.arange(72)
    target = (rank // 8 + 4) % 9 * 8 + rank % 8
    static, adaptive = (hottest(Network(graph, routing=routing), rank, target) for routing in (STATIC, ADAPTIVE))
    assert adaptive <= static


def test_a_pair_with_one_path_loads_it_for_those_with_several():
    # on a ring of 4 routers rank 0 to 1 has one path; 0 to 2 has two, and goes the other way round
    graph = dgx_h100(4, partial(torus, x=4))
    network = Network(graph, routing=ADAPTIVE)
    one, other = paths(network, [0, 1], [8, 17])
    assert [node for node in one if "router" in node] == ["router0", "router1"]
    assert [node for node in other if "router" in node] == ["router0", "router3", "router2"]


def test_the_site_of_a_dragonfly_adapts_and_repeats_nothing():
    site = Site(FLIES[0])
    assert str(site.routing) == "adaptive"
    assert site.repeat(3) is site
    assert Routing("adaptive").seeds(2) == [1, 1]


def test_a_detour_around_a_fault_is_found():
    from sim.conditions import Conditions
    from sim.faults import parse as fault
    from sim.outages import Outages
    from sim.program import Program, freeze
    from tests.sim.graphs import MiB, one_send

    program = Program(24)
    program.permute(one_send(24, 0, 23), MiB)
    network = Network(FLIES[0])
    (path,) = paths(network, [0], [23])
    switches = [node for node in path if "group" in node]
    conditions = Conditions([fault("down", f"link:{switches[0]}-{switches[1]}")], FLIES[0], network)
    outages = Outages(freeze(program, network), conditions)
    links = [network.links[k] for k in outages.frozen.bare.route[0] if k != network.pad]
    assert tuple(switches[:2]) not in links
    assert nx.is_path(FLIES[0], [links[0][0], *(head for _, head in links)])


JOB = ["--cluster", "dgx_h100", "--nodes", "4", "--model", "llama3-8b", "--seq", "128K"]


def test_the_answer_says_what_adaptive_is_taken_to_be(capsys):
    job = ["simulate", "ring", *JOB, "--fabric", "dragonfly:hosts=2,links=1"]
    found = answer(capsys, *job)

    assert found["routing"]["name"] == "adaptive"
    assert found["routing"]["pairs_with_equal_paths"] > 0
    assert any(text.startswith("routing: adaptive, by flow: rank after rank") for text in found["assumptions"])
    assert "routing    adaptive: " in shown(capsys, *job)
    tree = answer(capsys, "simulate", "ring", *JOB, "--fabric", "fat_tree:leaf=8", "--routing", "adaptive")
    assert tree["routing"] == {"name": "adaptive", "pairs_with_equal_paths": 4, "most_equal_paths": 8}
