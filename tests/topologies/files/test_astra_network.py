"""ASTRA-sim's networks as graphs: a product of rings, switches and full connections."""

import time
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.files import astra_network, read
from topologies.files.facts import FileError
from topologies.units import GB, ns

DATA = Path(__file__).parents[2] / "data" / "files"


def network(shapes, sizes, bandwidth=None, latency=None):
    ones = [1] * len(shapes)
    return "\n".join(
        f"{key}: [{', '.join(map(str, values))}]"
        for key, values in (
            ("topology", shapes),
            ("npus_count", sizes),
            ("bandwidth", bandwidth or ones),
            ("latency", latency or ones),
        )
    )


def test_dimensions_are_joined_where_coordinates_differ_in_one_only():
    graph = read(str(DATA / "astra.yml")).graph

    assert [graph.nodes[name]["rank"] for name in ("gpu0.0.0", "gpu3.0.0", "gpu0.1.0", "gpu0.0.1")] == [0, 3, 4, 12]
    assert sorted(graph["gpu0.0.0"]) == ["gpu0.1.0", "gpu0.2.0", "gpu1.0.0", "gpu3.0.0", "switch2.0"]
    numbers = [graph["gpu0.0.0"][to] for to in ("gpu1.0.0", "gpu0.1.0", "switch2.0")]
    assert [link["bandwidth"] for link in numbers] == [80 * GB, 40 * GB, 12.5 * GB]
    assert [link["latency"] for link in numbers] == pytest.approx([1000 * ns, 500 * ns, 2000 * ns])


def test_a_path_through_a_switch_has_the_latency_of_two_links():
    graph = astra_network.read(network(["Switch"], [16], [50.0], [500.0]), "f").graph

    assert nx.shortest_path_length(graph, "gpu0", "gpu9", weight="latency") == pytest.approx(2 * 500 * ns)


@given(
    st.lists(
        st.tuples(st.sampled_from(["Ring", "Switch", "FullyConnected"]), st.integers(1, 5)), min_size=1, max_size=4
    )
)
@settings(max_examples=50)
def test_the_number_of_links_is_that_of_its_groups(dimensions):
    # both ways: a ring of n > 2 has 2 n links, of 2 has 2; a switch 2 n; a full connection n (n - 1)
    shapes, sizes = zip(*dimensions, strict=True)
    graph = astra_network.read(network(shapes, sizes), "f").graph
    npus = sum(kind == "gpu" for _, kind in graph.nodes(data="kind"))
    links = {
        "Ring": lambda n: 2 * n if n > 2 else 2 * (n - 1),
        "Switch": lambda n: 2 * n if n > 1 else 0,
        "FullyConnected": lambda n: n * (n - 1),
    }

    assert graph.number_of_edges() == sum(npus // n * links[shape](n) for shape, n in dimensions)
    assert nx.is_strongly_connected(graph)
    assert [data["rank"] for _, data in graph.nodes(data=True) if data["kind"] == "gpu"] == list(range(npus))


def test_logical_dimensions_have_sizes_and_nothing_else():
    facts = read(str(DATA / "astra_logical.json"))

    assert sum(kind == "gpu" for _, kind in facts.graph.nodes(data="kind")) == 8
    assert {(data["bandwidth"], data["latency"]) for *_, data in facts.graph.edges(data=True)} == {(None, None)}
    assert facts.notes[0] == (
        "says sizes only: neither bandwidth, nor latency, nor how the NPUs of a dimension are joined"
    )
    assert "each group of a dimension is read as one switch" in facts.notes


@pytest.mark.parametrize(
    "text, wrong",
    [
        (network(["Ring"], [8], ["tbd"]), "line 3: bandwidth[0] is 'tbd': expected a number of GB/s above 0"),
        (network(["Ring"], [8], ["50GB/s"]), "line 3: bandwidth[0] is '50GB/s': expected a number of GB/s above 0"),
        (network(["Ring"], [8], [-50]), "line 3: bandwidth[0] is -50: expected a number of GB/s above 0"),
        (network(["Ring"], [8], [0]), "line 3: bandwidth[0] is 0: expected a number of GB/s above 0"),
        (network(["Ring"], [8], [50], [-1]), "line 4: latency[0] is -1: expected a number of ns, 0 or more"),
        (network(["Ring", "Mesh"], [8, 2]), "line 1: topology[1] is 'Mesh': expected one of Ring, Switch, FullyConn"),
        (network(["Ring"], [8.5]), "line 2: npus_count[0] is 8.5: expected a whole number from 1 to 262144"),
        (network(["Ring"], [0]), "line 2: npus_count[0] is 0: expected a whole number from 1 to 262144"),
        (network(["Ring"], ["true"]), "line 2: npus_count[0] is True: expected a whole number from 1 to 262144"),
        (network(["Ring"], [4, 8]), "line 2: npus_count has 2 values, topology has 1: expected one a dimension"),
        ("topology: Ring\nnpus_count: 8\nbandwidth: 1\nlatency: 1", "line 1: topology is 'Ring': expected a list"),
        ("npus_count: [8]\ntopology: [Ring]\nbandwidth: [1]", "has no latency: expected the keys topology, npus_count"),
        ("npus_count: [8]\nnpus_count: [8]", "line 2: 'npus_count' is there twice"),
        ("npus_count: &a [8]\nlatency: *a", "line 1: an anchor (&name) is for aliases, which are not read"),
        ("npus_count: !!python/object:os.system [8]", "line 1: a tag is not read"),
        ("npus_count: [8", "line 2: is no YAML: did not find expected ',' or ']'"),
        (network(["FullyConnected"], [16384]), "has 268,419,072 links: at most 2,000,000 are read"),
        (network(["Ring"] * 3, [128] * 3), "has 2,097,152 NPUs: at most 262,144 are read"),
        ('{"logical-dims": ["8", "two"]}', "logical-dims[1] is 'two': expected a whole number from 1 to 262144"),
        ('{"logical-dims": ["0"]}', "logical-dims[0] is '0': expected a whole number"),
        ('{"logical-dims": "8"}', "logical-dims is '8': expected a list of sizes"),
        ('{"logical-dims": ["8"', "line 1: is no JSON: Expecting ',' delimiter"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key_and_line(text, wrong):
    assert astra_network.looks_like(text)
    with pytest.raises(FileError) as error:
        astra_network.read(text, "net.yml")

    assert wrong in str(error.value)
    assert str(error.value).isprintable()


def test_16384_npus_are_read_in_two_seconds():
    text = network(["Ring", "FullyConnected", "Switch"], [16, 16, 64])
    start = time.process_time()
    graph = astra_network.read(text, "f").graph

    assert time.process_time() - start < 2
    assert sum(kind == "gpu" for _, kind in graph.nodes(data="kind")) == 16384
