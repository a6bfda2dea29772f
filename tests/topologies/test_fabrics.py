"""Fabrics against their formulas: bisection bandwidth by max-flow, diameter, equal paths, degrees."""

from functools import partial
from itertools import chain

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from topologies import fabrics
from topologies.dgx import dgx_a100, dgx_h100
from topologies.fabrics.fat_tree import fat_tree
from topologies.fabrics.rail import rail
from topologies.fabrics.single import single
from topologies.laws import check
from topologies.links import LINK_KINDS
from topologies.nics import NDR
from topologies.nvl72 import gb200_nvl72
from topologies.perlmutter import perlmutter

B = NDR.bandwidth
MACHINES = [dgx_a100, dgx_h100, gb200_nvl72, perlmutter]


def joined(fabric, machines, nics=1):
    """Return NICs alone, joined by a fabric, and their names."""
    graph = nx.DiGraph(name="nics", sources={}, assumptions=[])
    names = [[f"nic{m}.{i}" for i in range(nics)] for m in range(machines)]
    fabrics.join(graph, names, NDR, fabric)
    return graph, list(chain.from_iterable(names))


def carried(graph, senders, receivers):
    """Return the bytes/s that some nodes can send to others, by max-flow."""
    graph = graph.copy()
    graph.add_edges_from(("from all", node) for node in senders)
    graph.add_edges_from((node, "to all") for node in receivers)
    return nx.maximum_flow_value(graph, "from all", "to all", capacity="bandwidth")


def equal_paths(graph, a, b):
    """Count the shortest paths."""
    return sum(1 for _ in nx.all_shortest_paths(graph, a, b))


def switches(graph, name):
    return [node for node in graph if str(node).rpartition("/")[2].startswith(name)]


# leaf NICs d, oversubscription o, leaves L: d/o spines
TWO_TIERS = [(2, 1, 4), (4, 2, 4), (4, 4, 2), (3, 3, 6), (8, 2, 3)]


@pytest.mark.parametrize("d, o, leaves", TWO_TIERS)
def test_a_leaf_spine_tree_is_its_formulas(d, o, leaves):
    spines = d // o
    graph, nics = joined(partial(fat_tree, leaf=d, oversubscription=o), d * leaves)

    assert {graph.out_degree(leaf) for leaf in switches(graph, "leaf")} == {d + spines}
    assert {graph.out_degree(spine) for spine in switches(graph, "spine")} == {leaves}
    assert (len(switches(graph, "leaf")), len(switches(graph, "spine"))) == (leaves, spines)
    assert max(nx.eccentricity(graph, v=nics).values()) == 4  # NIC, leaf, spine, leaf, NIC
    assert equal_paths(graph, nics[0], nics[-1]) == spines
    assert equal_paths(graph, nics[0], nics[1]) == 1
    half = d * (leaves // 2)
    assert carried(graph, nics[:half], nics[half:]) == pytest.approx(half * B / o)
    assert carried(graph, nics[:1], nics[-1:]) == B


@pytest.mark.parametrize("k", [2, 4, 6])
def test_a_k_ary_fat_tree_is_that_of_its_paper(k):
    hosts = k**3 // 4
    graph, nics = joined(partial(fat_tree, ports=k, tiers=3), hosts)

    found = [len(switches(graph, name)) for name in ("leaf", "spine", "core")]
    assert found == [k * k // 2, k * k // 2, (k // 2) ** 2]
    assert {graph.out_degree(switch) for switch in graph if switch not in nics} == {k}
    assert max(nx.eccentricity(graph, v=nics).values()) == 6
    assert equal_paths(graph, nics[0], nics[-1]) == (k // 2) ** 2
    if k > 2:
        assert equal_paths(graph, nics[0], nics[k // 2]) == k // 2  # of one pod
    assert carried(graph, nics[: hosts // 2], nics[hosts // 2 :]) == pytest.approx(hosts // 2 * B)


@pytest.mark.parametrize("o, spines", [(2, 2), (2, 1), (1, 1), (3, 5)])
def test_fewer_spines_have_faster_links_and_three_tiers_keep_the_oversubscription(o, spines):
    graph, nics = joined(partial(fat_tree, ports=8, leaf=3, oversubscription=o, spines=spines, tiers=3), 60)

    assert carried(graph, nics[:24], nics[24:]) == pytest.approx(24 * B / o)  # two pods of four leaves, and three
    assert equal_paths(graph, nics[0], nics[-1]) == spines * 4
    assert graph.out_degree("leaf0") == 3 + spines


def test_the_tiers_are_as_few_as_will_do():
    assert not switches(joined(partial(fat_tree, ports=8), 32)[0], "core")  # 8 leaves of 4
    assert len(switches(joined(partial(fat_tree, ports=8), 33)[0], "core")) == 16
    assert not switches(dgx_h100(128, partial(fat_tree, oversubscription=2)), "core")


@pytest.mark.parametrize("o", [1, 2, 1.5])
def test_rails_are_blocked_between_them_only(o):
    graph, _ = joined(partial(rail, oversubscription=o), machines=6, nics=4)
    nics = [[f"nic{m}.{i}" for m in range(6)] for i in range(4)]

    assert carried(graph, nics[0] + nics[1], nics[2] + nics[3]) == pytest.approx(2 * 6 * B / o)
    assert carried(graph, nics[0][:3], nics[0][3:]) == 3 * B
    assert equal_paths(graph, nics[0][0], nics[3][5]) == equal_paths(graph, nics[0][0], nics[0][5]) == 1
    assert [nx.shortest_path_length(graph, "nic0.0", other) for other in ("nic5.0", "nic5.1")] == [2, 4]
    assert (graph.out_degree("rail0"), graph.out_degree("spine")) == (7, 4)


def test_a_single_switch_limits_nobody():
    graph, nics = joined(single, 5, 2)

    assert (graph.out_degree("switch"), graph.number_of_edges()) == (10, 20)
    assert max(nx.eccentricity(graph, v=nics).values()) == 2
    assert carried(graph, nics[:5], nics[5:]) == 5 * B


@pytest.mark.parametrize("name", fabrics.names())
@pytest.mark.parametrize("machine", MACHINES)
def test_any_machine_on_any_fabric_keeps_the_laws(machine, name):
    graph = machine(3, fabrics.find(name))
    check(graph)
    assert graph.graph["fabric"] == name
    assert {d["kind"] for _, _, d in graph.edges(data=True)} <= set(LINK_KINDS)
    assert all(graph.edges[b, a] == link for a, b, link in graph.edges(data=True))
    assert "fabric" not in machine(1, fabrics.find(name)).graph


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 40), st.integers(1, 3), st.sampled_from([4, 6, 8, 64]), st.sampled_from([1, 2, 3]), st.data())
def test_whatever_the_numbers_a_tree_joins_all_or_says_why_not(machines, nics, ports, tiers, data):
    leaf = data.draw(st.integers(1, ports))
    chosen = {
        "leaf": leaf,
        "ports": ports,
        "spines": data.draw(st.integers(1, 5)),
        "tiers": tiers if tiers > 1 else None,
    }
    chosen["oversubscription"] = data.draw(st.sampled_from([0.5, 1, 1.7, 2, 100.0]))
    fits = leaf + chosen["spines"] <= ports and -(-machines * nics // leaf) <= ports * (ports // 2 if tiers != 2 else 1)
    if not fits:
        with pytest.raises(ValueError, match="fat_tree"):
            joined(partial(fat_tree, **chosen), machines, nics)
        return
    graph, names = joined(partial(fat_tree, **chosen), machines, nics)
    assert all(nx.has_path(graph, names[0], name) and nx.has_path(graph, name, names[0]) for name in names)
    assert {graph.in_degree(name) for name in names} == {1}
    assert max(graph.out_degree(leaf) for leaf in switches(graph, "leaf")) <= ports


def test_the_folder_is_listed():
    assert fabrics.names() == ["dragonfly", "fat_tree", "rail", "rail_only", "single", "superpod", "torus"]
    assert set(fabrics.names()).isdisjoint(topologies.names())
    for name in fabrics.names():
        assert fabrics.find(name).__name__ == name
        assert fabrics.find(name).__doc__.startswith("Join machines by ")


@pytest.mark.parametrize(
    "chosen",
    [
        {"oversubscription": True},
        {"oversubscription": "2"},
        {"leaf": 1.5},
        {"leaf": True},
        {"ports": None},
        {"tiers": 1},
    ],
)
def test_a_number_of_another_kind_is_refused(chosen):
    with pytest.raises(ValueError, match="of fat_tree must be"):
        joined(partial(fat_tree, **chosen), 4)
