"""A cluster that is written to a file is read back equal, and one that people wrote says what is wrong with it."""

import os
import stat
import sys
import time
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from topologies.fabrics import parse
from topologies.files import graphs, read
from topologies.files.facts import FileError
from topologies.files.text import load
from topologies.options import build

DATA = Path(__file__).parents[2] / "data" / "files"
SUFFIXES = [".json", ".yaml", ".graphml"]


def told(graph):
    """All of a graph, with the order of nodes and links and the types of values."""
    return repr((graph.graph, list(graph.nodes(data=True)), list(graph.edges(data=True))))


def there_and_back(graph, folder, suffix):
    path = str(folder / f"cluster{suffix}")
    graphs.write(graph, path)
    text = load(path)
    assert graphs.looks_like(text)
    return graphs.read(text, path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", topologies.names())
def test_every_topology_comes_back_equal(tmp_path, name, suffix):
    graph = topologies.find(name)()
    facts = there_and_back(graph, tmp_path, suffix)

    assert told(facts.graph) == told(graph)
    assert not facts.notes


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_fabric_and_routing_come_back(tmp_path, suffix):
    graph = topologies.find("dgx_h100")(nodes=4, fabric=parse("fat_tree:oversubscription=2"))
    back = there_and_back(graph, tmp_path, suffix).graph

    assert told(back) == told(graph)
    assert back.graph["fabric"] == "fat_tree(oversubscription=2)"


TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(extra=st.dictionaries(NAMES, VALUES, max_size=4), nodes=st.lists(NAMES, min_size=2, max_size=5, unique=True))
@settings(max_examples=60)
def test_any_value_and_any_name_come_back(tmp_path_factory, suffix, extra, nodes):
    own = {f"x{key}": value for key, value in extra.items()}
    graph = nx.DiGraph(name="any", sources={}, assumptions=[], **own)
    for rank, node in enumerate(nodes):
        graph.add_nodes_from([(node, {"kind": "gpu", "rank": rank, "flop_rate": 1e15} | own)])
    link = {"kind": "link", "bandwidth": 1e9, "latency": 1e-6, "offloaded": True} | own
    graph.graph["sources"] = dict.fromkeys(("gpu.flop_rate", "link.bandwidth", "link.latency"), "given")
    graph.add_edges_from((a, b, link) for a in nodes for b in nodes if a != b)

    assert told(there_and_back(graph, tmp_path_factory.getbasetemp(), suffix).graph) == told(graph)


def test_networkx_reads_what_is_written_and_what_networkx_writes_is_read(tmp_path):
    graph = topologies.find("dgx_a100")(nodes=2)
    graphs.write(graph, str(tmp_path / "ours.graphml"))
    theirs = nx.read_graphml(tmp_path / "ours.graphml")

    assert dict(theirs.nodes(data=True)) == dict(graph.nodes(data=True))
    assert nx.to_dict_of_dicts(theirs) == nx.to_dict_of_dicts(graph)
    theirs.graph = {"name": "theirs"}
    nx.write_graphml(theirs, tmp_path / "theirs.graphml")
    back = read(str(tmp_path / "theirs.graphml")).graph
    assert dict(back.nodes(data=True)) == dict(graph.nodes(data=True))
    assert back.graph["sources"]["nvlink.bandwidth"] == "theirs.graphml"


def test_what_a_file_by_hand_leaves_out_stays_out_and_is_said():
    facts = read(str(DATA / "cluster.yaml"))
    graph = facts.graph

    assert graph.nodes["a/gpu0"]["flop_rate"] == 312e12
    assert "flop_rate" not in graph.nodes["a/gpu1"]
    assert graph.edges["switch", "a/gpu0"] == {"kind": "nic", "bandwidth": 12.5e9, "offloaded": True}
    assert graph.edges["b/gpu1", "b/gpu0"] == {"kind": "nvlink", "bandwidth": 1e11, "latency": 7e-7, "offloaded": True}
    assert graph.graph["sources"]["nic.bandwidth"] == "cluster.yaml"
    assert "flop_rate is not said: a/gpu1, b/gpu0, b/gpu1" in facts.notes


HEAD = "schema: ringloom.cluster/1\nname: a\n"
LINK = "classes:\n  l: {kind: link, bandwidth: 1.0e9, latency: 0, offloaded: true}\n"
TWO = "nodes:\n  a: {kind: gpu, rank: 0, flop_rate: 1.0e15}\n  b: {kind: gpu, rank: 1, flop_rate: 1.0e15}\n"


@pytest.mark.parametrize(
    "text, wrong",
    [
        ("schema: ringloom.cluster/2", "line 1: schema is 'ringloom.cluster/2': this version reads ringloom.cluster/1"),
        (HEAD, "G2: a topology has at least one GPU: a has none"),
        (HEAD + TWO, "G7: every GPU reaches every other: no path from a to b"),
        (HEAD + LINK + TWO + "cables:\n  a: {c: l}", "line 9: link 'a' -> 'c': 'c' is no node"),
        (HEAD + LINK + TWO + "cables:\n  a: {b: m}", "line 9: link 'a' -> 'b': 'm' is no class of links"),
        (HEAD + LINK + TWO + "cables:\n  a: {b: l}\n  b: {a: l}", "line 10: link 'b' -> 'a' is there twice"),
        (HEAD + LINK + TWO + "links:\n  a: b", "line 9: links of 'a' are 'b': expected a mapping of nodes to classes"),
        (HEAD + LINK.replace("1.0e9", "-1") + TWO + "cables: {a: {b: l}}", "G4: a link's B/s are from 1 to 1e+24"),
        (HEAD + LINK.replace("1.0e9", "0") + TWO + "cables: {a: {b: l}}", "G4: a link's B/s are from 1 to 1e+24"),
        (HEAD + LINK.replace("link,", "rope,") + TWO + "cables: {a: {b: l}}", "G6: a link's kind is one of"),
        (HEAD + LINK + TWO + "cables: {a: {a: l}}", "a"),
        (HEAD + TWO.replace("rank: 1", "rank: 0"), "G2: each rank is there once: a and b both have 0"),
        (HEAD + TWO.replace("b:", "a:"), "line 5: 'a' is there twice"),
        (HEAD + TWO.replace("gpu,", "cat,"), "G1: a node's kind is one of"),
        (HEAD + "nodes: [a, b]", "line 3: nodes is ['a', 'b']: expected a mapping"),
        (HEAD + "nodes: {a: b}", "line 3: node 'a' is 'b': expected a mapping"),
        (HEAD + "nodes: &n {a: *n}", "line 3: an anchor (&name) is for aliases, which are not read"),
        (HEAD + "nodes: " + "[" * 30, "line 3: is nested more than 20 deep"),
        (HEAD + "nodes: *n", "line 3: an alias (*name) stands for other text"),
        (HEAD + "? [a]\n: b", "line 3: a key is a text, not a list or mapping"),
        (HEAD + "---\na: b", "line 3: a second document begins"),
        (HEAD + "nodes: {a", "is no YAML: did not find expected ',' or '}'"),
        ('{"schema": "ringloom.cluster/1",\n"nodes": {"a": {}, "a": {}}}', "'a' is there twice in one mapping"),
        ('{"schema": "ringloom.cluster/1",\n"nodes": {', "line 2: is no whole JSON: Expecting property name"),
        ('{"schema": "ringloom.cluster/1", "nodes": NaN}', "NaN is no number of JSON"),
        ('{"schema": "ringloom.cluster/1", "nodes": ' + "[" * 100_000, "is nested too deep"),
        ('{"schema": "ringloom.cluster/1", "nodes": ' + "9" * 5000 + "}", "holds a number of too many digits"),
        ("<graphml>\n<graph>", "line 2: the text ends inside <graph> of line 2, which is never closed"),
        ("<graphml></graphml>", "line 1: has 0 graphs: expected one"),
        ("<!DOCTYPE a><graphml/>", "line 1: a document type or entity is declared"),
        ('<graphml><graph>\n<edge source="a" target="b"/></graph></graphml>', "line 2: an edge ends at 'a', which is"),
        ('<graphml><graph><node id="a"/>\n<node id="a"/></graph></graphml>', "line 2: node 'a' has no id, or one that"),
        ('<graphml><graph><node id="a"><data key="k"/></node></graph></graphml>', "line 1: key 'k' is not declared"),
        (
            '<graphml><key id="k" attr.name="rank" attr.type="int"/><graph>\n<node id="a"><data key="k">x</data></node>'
            "</graph></graphml>",
            "line 2: 'rank' is 'x': expected int",
        ),
        ("<graphml><graph><hyperedge/></graph></graphml>", "<hyperedge> of GraphML is not read"),
    ],
)
def test_a_wrong_file_is_refused_in_a_line(text, wrong):
    assert graphs.looks_like(text)
    with pytest.raises(FileError) as error:
        graphs.read(text, "mine")

    assert wrong in str(error.value)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    "attributes, wrong",
    [
        ({"place": (1, 2)}, "place of gpu0 is (1, 2)"),
        ({"place": {1, 2}}, "place of gpu0 is {1, 2}"),
        ({"place": float("nan")}, "finite numbers only: got"),
        ({1: 2}, "the name of an attribute is a text: gpu0 has 1"),
    ],
)
def test_what_no_file_can_hold_is_refused_before_a_file_is_begun(tmp_path, attributes, wrong):
    graph = topologies.find("ring")()
    graph.nodes["gpu0"].update(attributes)

    with pytest.raises(ValueError, match=r"a cluster file holds|is a text") as error:
        graphs.write(graph, str(tmp_path / "a.json"))
    assert wrong in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path):
    path, link = tmp_path / "a.json", tmp_path / "link.json"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    graphs.write(topologies.find("ring")(), str(link))

    assert link.is_symlink()
    assert read(str(path)).graph.graph["name"] == "ring(8)"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(tmp_path.iterdir()) == [path, link]


def test_a_new_file_has_the_mode_of_new_files(tmp_path):
    graphs.write(topologies.find("ring")(), str(tmp_path / "a.json"))
    (tmp_path / "b").touch()

    assert (tmp_path / "a.json").stat().st_mode == (tmp_path / "b").stat().st_mode


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_to_be_written_is_said(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(FileError, match="cannot be written: Permission denied"):
        graphs.write(topologies.find("ring")(), str(tmp_path / "a.json"))


def test_a_pipe_is_written_into_and_stays_a_pipe(tmp_path):
    # A link to a device is the same: /dev/full must not become a file because root may rename one over it.
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.json").symlink_to("pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    graphs.write(topologies.find("ring")(), str(tmp_path / "a.json"))

    assert os.read(reader, 2**16).startswith(b"{")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    os.close(reader)


def test_a_suffix_says_how_a_file_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"a cluster file ends in .json, .yaml, .yml, .graphml: got"):
        graphs.write(topologies.find("ring")(), str(tmp_path / "a.txt"))
    with pytest.raises(FileError, match="cannot be written: No such file or directory"):
        graphs.write(topologies.find("ring")(), str(tmp_path / "none" / "a.json"))


def test_16384_gpus_are_written_and_read_in_seconds(tmp_path):
    graph = topologies.find("dgx_h100")(nodes=2048)
    start = time.process_time()
    back = there_and_back(graph, tmp_path, ".json").graph

    assert time.process_time() - start < 5
    assert told(back) == told(graph)


TWO_NAMED = (
    "nodes:\n  a: {kind: gpu, rank: 0, gpu: A100-SXM4-40}\n  b: {kind: gpu, rank: 1, gpu: mi300x, memory: 5e9}\n"
)


def test_a_gpu_that_is_named_without_numbers_has_those_of_its_model_and_no_other(tmp_path):
    path = tmp_path / "named.yaml"
    path.write_text(HEAD + LINK + TWO_NAMED + "cables:\n  a: {b: l}\n")
    graph, _ = build(str(path))

    a, b = graph.nodes["a"], graph.nodes["b"]
    assert (a["gpu"], a["flop_rate"], a["memory"]) == ("A100-SXM4-40", 312e12, 40e9)
    assert (b["gpu"], b["flop_rate"], b["memory"]) == ("MI300X-192", 1307.4e12, 5e9)
    assert graph.graph["sources"]["gpu.flop_rate"].startswith("https://")
    assert not graph.graph["warnings"]


def test_a_gpu_that_is_named_and_not_known_is_refused(tmp_path):
    path = tmp_path / "named.yaml"
    path.write_text(HEAD + LINK + TWO_NAMED.replace("mi300x", "zork") + "cables:\n  a: {b: l}\n")

    with pytest.raises(ValueError, match=r"named.yaml: no GPU 'zork': expected one of .* or say its flop_rate"):
        build(str(path))


def test_a_yaml_without_a_schema_is_told_of_it(tmp_path):
    path = tmp_path / "bare.yaml"
    path.write_text(TWO)

    with pytest.raises(
        FileError, match=r"of no known format: .*; a cluster of your own says schema: ringloom.cluster/1"
    ):
        read(str(path))


def test_a_whole_cluster_says_where_its_size_and_fabric_come_from(tmp_path):
    path = tmp_path / "whole.yaml"
    path.write_text(HEAD + LINK + TWO + "cables:\n  a: {b: l}\n")

    with pytest.raises(ValueError, match="cannot be had 2 times; say --nodes to `ringloom topology import`"):
        build(str(path), nodes=2)
    with pytest.raises(ValueError, match="takes no fabric, it is one whole cluster; files of a machine"):
        build(str(path), fabric="rail")
