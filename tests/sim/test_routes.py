"""Routes: the best of all simple paths, deterministic, and through a GPU only where there is no other way."""

from functools import partial
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topologies
from sim.network import Network
from sim.routing import Routing
from tests.sim.graphs import cable, gpus, star, two_level, us
from topologies.dgx import dgx_a100, dgx_h100
from topologies.fabrics.fat_tree import fat_tree
from topologies.nvl72 import gb200_nvl72


@st.composite
def graphs(draw):
    """Draw a strongly connected graph of 2-4 GPUs and up to 5 switches with few distinct latencies."""
    ranks, switches = draw(st.integers(2, 4)), draw(st.integers(0, 5))
    graph = gpus(ranks, "drawn")
    graph.add_nodes_from((f"switch{k}" for k in range(switches)), kind=draw(st.sampled_from(["switch", "nvswitch"])))
    nodes = draw(st.permutations([f"gpu{r}" for r in range(ranks)] + [f"switch{k}" for k in range(switches)]))
    pairs = st.tuples(st.sampled_from(nodes), st.sampled_from(nodes)).filter(lambda pair: pair[0] != pair[1])
    most = draw(st.sampled_from([0, 3]))  # us of a link
    for a, b in [*pairwise(nodes), *draw(st.lists(pairs, max_size=12))]:
        cable(graph, a, b, 1e9, draw(st.integers(0, most)) * us)
    return graph


ROUTINGS = st.one_of(st.just(Routing()), st.builds(Routing, st.just("ecmp"), st.integers(0, 2**62)))


def merits(graph, path):
    """Return what a path is judged by: GPUs passed through, latency in whole us, hops."""
    passed = sum(node.startswith("gpu") for node in path[1:-1])
    latency = sum(round(graph.edges[edge]["latency"] / us) for edge in pairwise(path))
    return passed, latency, len(path) - 1


@given(graphs(), ROUTINGS)
def test_a_route_is_the_best_simple_path_whatever_the_hash(graph, routing):
    network = Network(graph, routing=routing)
    source, destination = np.divmod(np.arange(network.ranks**2), network.ranks)

    routes = network.route(source, destination)

    for s, d, row in zip(source, destination, routes, strict=True):
        links = [network.links[link] for link in row if link != network.pad]
        if s == d:
            assert links == []
            continue
        path = [links[0][0], *(head for _, head in links)]
        assert all(a[1] == b[0] for a, b in pairwise(links))
        assert (path[0], path[-1]) == (f"gpu{s}", f"gpu{d}")
        every = [merits(graph, other) for other in nx.all_simple_paths(graph, f"gpu{s}", f"gpu{d}")]
        assert merits(graph, path) == min(every)
        alone = Network(graph, routing=routing)
        assert [alone.links[link] for link in alone.route([s], [d])[0] if link != alone.pad] == links
        assert (alone.choices[1] > 1) == (every.count(min(every)) > 1)


def test_a_gpu_is_passed_through_only_where_there_is_no_other_path():
    graph = gpus(4, "ring of GPUs")
    for rank in range(4):
        cable(graph, f"gpu{rank}", f"gpu{(rank + 1) % 4}", 1e9, 1 * us)
    assert _nodes(Network(graph), 0, 2) == ["gpu0", "gpu1", "gpu2"]

    for rank in range(4):
        cable(graph, f"gpu{rank}", "far switch", 1e9, 100 * us)
    assert _nodes(Network(graph), 0, 2) == ["gpu0", "far switch", "gpu2"]


@pytest.mark.parametrize("name", topologies.names())
def test_no_route_between_two_gpus_of_a_machine_leaves_it(name):
    graph = topologies.find(name)(4 if name.startswith("tpu") else 2)
    network = Network(graph)
    source, target = np.divmod(np.arange(network.ranks**2), network.ranks)
    machine = np.array([graph.nodes[gpu].get("host", gpu) for gpu in network.gpus])
    together = machine[source] == machine[target]

    routes = network.route(source[together], target[together])

    assert not {network.kinds[link] for link in set(routes.flat) - {network.pad}} & {"nic", "fabric"}


def test_among_equal_paths_the_lowest_node_wins():
    graph = gpus(2, "two planes")
    for plane in ("plane1", "plane0"):
        for rank in (0, 1):
            cable(graph, f"gpu{rank}", plane, 1e9, 1 * us)
    assert _nodes(Network(graph), 0, 1) == ["gpu0", "plane1", "gpu1"]  # the one added first


def test_the_order_of_latencies_does_not_break_a_tie():
    # 0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in floating point; the paths are equal.
    graph = gpus(2, "two ways")
    graph.add_nodes_from(["b1", "b2", "a1", "a2"])
    for name, latencies in (("b", (0.3, 0.2, 0.1)), ("a", (0.1, 0.2, 0.3))):
        stops = ["gpu0", f"{name}1", f"{name}2", "gpu1"]
        for tail, head, latency in zip(stops, stops[1:], latencies, strict=False):
            cable(graph, tail, head, 1e9, latency * us)
    assert _nodes(Network(graph), 0, 1) == ["gpu0", "b1", "b2", "gpu1"]
    assert _nodes(Network(graph), 1, 0) == ["gpu1", "b2", "b1", "gpu0"]


def pcie_pairs(nodes):
    """Two GPUs and two NICs to a PCIe switch, like DGX A100: every NIC is equally near to both GPUs."""
    graph = gpus(2 * nodes, "pairs")
    for rank in range(2 * nodes):
        cable(graph, f"gpu{rank}", f"pcie{rank // 2}", 1e9, 1 * us)
        cable(graph, f"pcie{rank // 2}", f"nic{rank}", 1e9, 0)
        cable(graph, f"nic{rank}", f"rail{rank % 2}", 1e9, 1 * us)
        graph.nodes[f"gpu{rank}"]["nic"] = f"nic{rank}"
    return graph


def test_among_equal_paths_the_nic_of_either_end_wins():
    network = Network(pcie_pairs(2))
    for gpu, peer in ((0, 2), (1, 3), (2, 0), (3, 1)):
        way = _nodes(network, gpu, peer)
        assert way[2:5] == [f"nic{gpu}", f"rail{gpu % 2}", f"nic{peer}"]
    assert _nodes(network, 0, 3)[2:5] == ["nic1", "rail1", "nic3"]  # the receiver's, looking back from it


def test_what_is_learnt_later_does_not_change_a_route():
    once, twice = Network(two_level(16)), Network(two_level(16))
    source, destination = np.divmod(np.arange(256), 16)
    for s, d in ((9, 3), (0, 15), (9, 3)):
        twice.route([s], [d])
    assert (once.route(source, destination) == twice.route(source, destination)).all()


def machines(nodes, cross):
    """Machines of two GPUs, each with a NIC; NICs of a machine are joined, and those of one place if `cross`."""
    graph = gpus(2 * nodes, "machines")
    for rank in range(2 * nodes):
        host = f"node{rank // 2}"
        graph.nodes[f"gpu{rank}"]["host"] = host
        graph.add_node(f"nic{rank}", host=host)
        cable(graph, f"gpu{rank}", f"nic{rank}", 1e9, 1 * us)
        if cross or rank > 0:
            cable(graph, f"nic{rank}", f"rail{rank % 2}", 1e9, 1 * us)
    for node in range(nodes):
        cable(graph, f"nic{2 * node}", f"nic{2 * node + 1}", 1e9, 1 * us)
    return graph


def test_a_third_machine_forwards_only_where_there_is_no_other_path():
    graph = machines(3, True)
    assert _nodes(Network(graph), 0, 3) == ["gpu0", "nic0", "nic1", "rail1", "nic3", "gpu3"]
    graph.remove_edge("nic0", "nic1")
    graph.remove_edge("nic2", "nic3")  # now only machine 2 joins the rails
    assert _nodes(Network(graph), 0, 3) == ["gpu0", "nic0", "rail0", "nic4", "nic5", "rail1", "nic3", "gpu3"]


TREES = [
    dgx_h100(3, partial(fat_tree, leaf=4, oversubscription=2)),
    dgx_a100(5, partial(fat_tree, ports=6, leaf=3, spines=2, tiers=3)),
]


@pytest.mark.parametrize(
    "graph", [dgx_a100(3), dgx_h100(3), two_level(24), machines(3, False), gb200_nvl72(2), *TREES], ids=str
)
def test_a_route_is_the_same_whether_asked_for_alone_or_with_others(graph):
    together, apart = Network(graph), Network(graph)
    source, destination = np.divmod(np.arange(together.ranks**2), together.ranks)
    routes = together.route(source, destination)
    for k in np.random.default_rng(0).choice(len(routes), min(100, len(routes)), replace=False):
        (alone,) = apart.route(source[k : k + 1], destination[k : k + 1])
        assert alone[alone != apart.pad].tolist() == routes[k][routes[k] != together.pad].tolist()


def test_placement_says_which_gpu_runs_a_rank():
    network = Network(star(4), placement=[2, 0])
    assert network.ranks == 2
    assert network.gpus == ["gpu2", "gpu0"]
    assert _nodes(network, 0, 1) == ["gpu2", "switch", "gpu0"]


def test_efficiency_narrows_the_links_of_a_kind():
    network = Network(two_level(8), efficiency={"nvlink": 0.8, "nothing": 0.1})
    assert set(network.capacity[:-1]) == {0.8 * 450e9, 50e9}
    assert network.capacity[network.pad] == np.inf
    assert network.capacity[network.link("gpu3", "nvswitch0")] == 0.8 * 450e9


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ([0, 1, 2, 3, 0], "placement needs 5 GPUs: cluster star\\(4\\) has 4"),
        ([0, 4], "placement must name GPUs 0 to 3: rank 1 has 4"),
        ([-1], "placement must name GPUs 0 to 3: rank 0 has -1"),
        ([0, 2, 2], "placement must name a GPU once: ranks 1 and 2 have 2"),
    ],
)
def test_a_placement_is_one_gpu_a_rank(placement, message):
    with pytest.raises(ValueError, match=message):
        Network(star(4), placement=placement)


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("bandwidth", 0, "bandwidth must be finite and positive: link gpu1 -> switch has 0"),
        ("bandwidth", None, "bandwidth must be finite and positive: link gpu1 -> switch has None"),
        ("bandwidth", float("inf"), "bandwidth must be finite and positive"),
        ("latency", -1e-6, "latency must be finite and not negative: link gpu1 -> switch has -1e-06"),
        ("latency", float("nan"), "latency must be finite and not negative"),
    ],
)
def test_a_link_has_a_bandwidth_and_a_latency(attribute, value, message):
    graph = star(2)
    graph.edges["gpu1", "switch"][attribute] = value
    with pytest.raises(ValueError, match=message):
        Network(graph)


def test_a_cluster_says_what_is_missing():
    with pytest.raises(ValueError, match="cluster empty has no GPU"):
        Network(nx.DiGraph(name="empty"))
    apart = gpus(2, "apart")
    with pytest.raises(ValueError, match=r"no path from rank 1 \(gpu1\) to rank 0 \(gpu0\)"):
        Network(apart).route([1], [0])
    apart.nodes["gpu1"]["rank"] = 2
    with pytest.raises(ValueError, match=r"GPU ranks must be 0, 1, 2, ...: gpu1 has 2, expected 1"):
        Network(apart)
    with pytest.raises(ValueError, match="no link gpu0 -> gpu1 in cluster star"):
        Network(star(2)).link("gpu0", "gpu1")


def _nodes(network, source, destination):
    """Return the nodes on a route."""
    (row,) = network.route([source], [destination])
    links = [network.links[link] for link in row if link != network.pad]
    return [links[0][0], *(head for _, head in links)]
