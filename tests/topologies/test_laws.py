"""The graph laws hold for every topology, and a planted fault breaks the law that names it."""

import itertools
import math
import re

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from topologies.dgx import dgx_a100, dgx_h100
from topologies.laws import TopologyError, check, facts, gpus, unaccounted

TPU_SIZES = (4, 8, 16, 32, 64, 128, 192, 256, 448)


@st.composite
def built(draw):
    """Draw a topology, a size that it can have, and its graph."""
    name = draw(st.sampled_from(topologies.names()))
    size = draw(st.sampled_from(TPU_SIZES) if name.startswith("tpu") else st.integers(1, 9))
    return name, size, topologies.find(name)(size)


@settings(deadline=None, max_examples=120)
@given(built())
def test_every_topology_of_every_size_keeps_the_laws(drawn):
    name, size, graph = drawn
    check(graph)
    assert graph.graph["name"].startswith(f"{name}({size}")


@settings(deadline=None, max_examples=80)
@given(built())
def test_every_cable_is_the_same_both_ways(drawn):
    # A PCIe switch that forwards to the CPU only is two nodes, up and down: its cables are both ways taken together.
    graph = drawn[2]
    other = {node: re.sub("/(up|down)$", lambda way: {"/up": "/down", "/down": "/up"}[way[0]], node) for node in graph}
    for a, b, link in graph.edges(data=True):
        assert graph.edges[other[b], other[a]] == link


@settings(deadline=None, max_examples=80)
@given(built())
def test_ranks_fill_one_host_after_the_other(drawn):
    graph = drawn[2]
    hosts = [graph.nodes[gpu]["host"] for gpu in gpus(graph)]
    assert len(set(hosts)) == sum(a != b for a, b in itertools.pairwise(hosts)) + 1


@pytest.mark.parametrize("name", topologies.names())
@pytest.mark.parametrize("size", [0, -1, True, 1.5, "2", None, math.nan])
def test_a_size_that_is_no_positive_whole_number_is_refused(name, size):
    with pytest.raises(ValueError, match="must be"):
        topologies.find(name)(size)


@pytest.mark.parametrize("name", topologies.names())
def test_no_graph_shares_its_accounts_with_the_next(name):
    size = 4 if name.startswith("tpu") else 2
    topologies.find(name)(size).graph["assumptions"].append("x: y")
    assert "x: y" not in topologies.find(name)(size).graph["assumptions"]


GPU, RAIL = "node1/gpu3", "rail3"
NODE_FAULTS = [
    ("G1", GPU, "kind", "tpu"),
    ("G1", RAIL, "kind", None),
    ("G1", RAIL, "kind", ["switch"]),
    ("G1", GPU, "host", 1),
    ("G1", GPU, "host", ["node1"]),
    ("G1", GPU, "gpu", {"name": "H100"}),
    ("G2", GPU, "rank", 10),
    ("G2", GPU, "rank", 16),
    ("G2", GPU, "rank", -1),
    ("G2", GPU, "rank", None),
    ("G2", GPU, "rank", 11.0),
    ("G2", RAIL, "rank", 16),
    ("G3", GPU, "flop_rate", 0.0),
    ("G3", GPU, "flop_rate", math.inf),
    ("G3", GPU, "flop_rate", 1e-300),
    ("G3", GPU, "memory_bandwidth", 1e300),
    ("G3", GPU, "flop_rate", None),
    ("G3", GPU, "memory", -1),
    ("G3", GPU, "memory_bandwidth", math.nan),
    ("G3", GPU, "memory", "80 GB"),
    ("G9", GPU, "nic", "node1/nic9"),
    ("G9", GPU, "nic", "node1/gpu4"),
]
LINK_FAULTS = [
    ("G4", "bandwidth", 0),
    ("G4", "bandwidth", -50e9),
    ("G4", "bandwidth", math.inf),
    ("G4", "bandwidth", 5e-324),
    ("G4", "bandwidth", 1e30),
    ("G4", "bandwidth", math.nan),
    ("G4", "bandwidth", None),
    ("G4", "bandwidth", True),
    ("G4", "expected", "50 GB/s"),
    ("G4", "expected", 0),
    ("G5", "latency", -1e-9),
    ("G5", "latency", math.inf),
    ("G5", "latency", 1e10),
    ("G5", "latency", "1us"),
    ("G6", "kind", "ethernet"),
    ("G6", "offloaded", None),
    ("G6", "offloaded", 1),
]


@pytest.mark.parametrize(("law", "node", "attribute", "value"), NODE_FAULTS)
def test_a_fault_of_a_node_breaks_its_law(law, node, attribute, value):
    graph = dgx_h100(2)
    graph.nodes[node][attribute] = value
    with pytest.raises(TopologyError, match=f"^{law}: ") as refusal:
        check(graph)
    assert node in str(refusal.value)
    assert str(value) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("law", "attribute", "value"), LINK_FAULTS)
def test_a_fault_of_a_link_breaks_its_law(law, attribute, value):
    graph = dgx_h100(2)
    graph.edges["node1/nic3", "rail3"][attribute] = value
    with pytest.raises(TopologyError, match=rf"^{law}: .*node1/nic3 -> rail3 has {re.escape(repr(value))}$"):
        check(graph)


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_a_gpu_cut_off_in_one_direction_breaks_g7(data):
    graph = dgx_a100(2)
    gpu = data.draw(st.sampled_from(gpus(graph)))
    out = data.draw(st.booleans())
    graph.remove_edges_from(list(graph.out_edges(gpu) if out else graph.in_edges(gpu)))
    with pytest.raises(TopologyError, match=r"^G7: .*no path from"):
        check(graph)


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_a_missing_attribute_of_any_link_is_found(data):
    graph = dgx_a100(1)
    edge = data.draw(st.sampled_from(sorted(graph.edges)))
    del graph.edges[edge][data.draw(st.sampled_from(["bandwidth", "latency", "kind", "offloaded"]))]
    with pytest.raises(TopologyError, match=f"{edge[0]} -> {edge[1]}"):
        check(graph)


def test_the_only_uplinks_lost_split_the_machines():
    graph = dgx_h100(2)
    graph.remove_edges_from([(f"node0/nic{i}", f"rail{i}") for i in range(8)])
    with pytest.raises(TopologyError, match=r"^G7: .*no path from node0/gpu0 to node1/gpu0"):
        check(graph)


def test_a_link_to_itself_breaks_g4():
    graph = dgx_h100(1)
    graph.add_edge(*["node0/gpu0"] * 2, **graph.edges["node0/gpu0", "node0/nvswitch"])
    with pytest.raises(TopologyError, match=r"^G4: .*node0/gpu0 is joined to itself"):
        check(graph)


@pytest.mark.parametrize("fact", list(facts(dgx_h100(2))))
def test_each_number_needs_its_source_or_assumption(fact):
    graph = dgx_h100(2)
    graph.graph["sources"].pop(fact, None)
    graph.graph["assumptions"] = [a for a in graph.graph["assumptions"] if not a.startswith(f"{fact}:")]
    assert unaccounted(graph) == [fact]
    with pytest.raises(TopologyError, match=f"^G8: .*none for {fact}"):
        check(graph)


@pytest.mark.parametrize("books", [["x"], {"gpu.flop_rate": 3}, {3: "x"}, "abc", 3, None])
def test_sources_and_assumptions_are_texts(books):
    for key in ("sources", "assumptions"):
        if key == "sources" or books != ["x"]:
            graph = dgx_h100(1)
            graph.graph[key] = books
            with pytest.raises(TopologyError, match=f"^G8: {key} are "):
                check(graph)


@pytest.mark.parametrize("key", ["assumptions", "left_out", "notes", "warnings"])
@pytest.mark.parametrize("remarks", ["abc", 5, {}, [5], [{}], None, ["gpu: red\x1b[31m"], ["two\nlines"]])
def test_remarks_are_lists_of_texts_that_can_be_printed(key, remarks):
    graph = dgx_h100(1)
    graph.graph[key] = remarks
    with pytest.raises(TopologyError, match=rf"^G8: .*{key}") as refusal:
        check(graph)
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize("key", ["fabric", "routing", "host", "gpu", "name"])
def test_what_a_terminal_or_a_picture_shows_can_be_printed(key):
    graph, red = dgx_h100(2), "red\x1b[31m"
    if key in ("fabric", "routing"):
        graph.graph[key] = red
    elif key == "name":
        nx.relabel_nodes(graph, {GPU: red}, copy=False)
    else:
        graph.nodes[GPU][key] = red
    with pytest.raises(TopologyError, match=r"^G1: .*x1b") as refusal:
        check(graph)
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize(
    ("graph", "law"),
    [
        (nx.DiGraph(), "G1"),
        (nx.DiGraph(name="red\x1b[31m"), "G1"),
        (nx.DiGraph(name="none"), "G2"),
        (nx.Graph(name="both ways"), "G1"),
        (nx.MultiDiGraph(name="twice"), "G1"),
    ],
)
def test_what_is_no_topology_at_all_is_refused(graph, law):
    with pytest.raises(TopologyError, match=f"^{law}: "):
        check(graph)
