"""A cluster file of one machine can be had many times, on any fabric, as the machine itself can."""

import pytest

import topologies
from tests.topologies.files.test_graphs import DATA
from topologies.fabrics.fat_tree import fat_tree
from topologies.files.assembly import topology
from topologies.files.facts import FileError
from topologies.files.graphs import write
from topologies.options import build
from topologies.units import Gbit

TWO_BOXES = """\
schema: ringloom.cluster/1
name: box
{more}
classes:
  nvlink: {{kind: nvlink, bandwidth: 4.5e+11, latency: 5.0e-07}}
  pcie: {{kind: pcie, bandwidth: 6.3e+10, latency: 5.0e-07}}
nodes:
  gpu0: {{kind: gpu, rank: 0, gpu: H100-SXM5-80, nic: nic0}}
  gpu1: {{kind: gpu, rank: 1, gpu: H100-SXM5-80, nic: nic1}}
  nic0: {{kind: nic}}
  nic1: {{kind: nic}}
cables:
  gpu0: {{gpu1: nvlink, nic0: pcie}}
  gpu1: {{nic1: pcie}}
"""


def written(tmp_path, more=""):
    path = tmp_path / "box.yaml"
    path.write_text(TWO_BOXES.format(more=more))
    return str(path)


def parts(graph):
    return list(graph.nodes(data=True)), list(graph.edges(data=True))


def nic_rates(graph):
    return {link["bandwidth"] for _, _, link in graph.edges(data=True) if link["kind"] == "nic"}


@pytest.mark.parametrize("suffix", [".json", ".yaml", ".graphml"])
@pytest.mark.parametrize("name", ["dgx_h100", "dgx_a100", "gb200_nvl72", "frontier", "mi300x", "aws_p5"])
def test_a_machine_of_ours_in_a_file_is_repeated_as_itself(name, suffix, tmp_path):
    machine, path = topologies.find(name), str(tmp_path / f"my{suffix}")
    write(machine(1), path)
    again, itself = topology([path])(3, fat_tree), machine(3, fabric=fat_tree)

    assert parts(again) == parts(itself)
    assert again.graph["name"] == itself.graph["name"]
    assert again.graph["sources"] == itself.graph["sources"]
    assert set(again.graph["assumptions"]) == set(itself.graph["assumptions"])


@pytest.mark.parametrize("nic", [None, 200 * Gbit])
def test_a_paste_in_a_file_is_repeated_as_the_paste(nic, tmp_path):
    paste, path = topology([str(DATA / "topo_h100.txt")], nic=nic), str(tmp_path / "my.json")
    write(paste(), path)
    again, itself = topology([path])(16, fat_tree), paste(16, fat_tree)

    assert parts(again) == parts(itself)
    for key in ("name", "sources", "assumptions", "left_out", "notes", "warnings"):
        assert again.graph[key] == itself.graph[key]


def test_a_machine_by_hand_says_what_its_nics_are_made_of(tmp_path):
    path = written(tmp_path, "network: {bandwidth: 2.5e+10, latency: 1.0e-06}")
    graph, gpus = build(path, nodes=4, fabric="fat_tree")

    assert gpus == 8
    assert nic_rates(graph) == {25e9}
    assert {link["latency"] for _, _, link in graph.edges(data=True) if link["kind"] == "nic"} == {1e-6}
    assert graph.graph["sources"]["nic.bandwidth"].startswith("box.yaml (")
    with pytest.raises(ValueError, match=r"nic .*: box.yaml says .*; leave --nic out"):
        build(path, nodes=4, nic=400 * Gbit)


def test_a_machine_by_hand_without_it_has_nics_as_asked_or_as_usual(tmp_path):
    path = written(tmp_path)

    assert nic_rates(build(path, nodes=2, nic=100 * Gbit)[0]) == {100 * Gbit}
    usual = build(path, nodes=2)[0]
    assert nic_rates(usual) == {400 * Gbit}
    assert any("box.yaml does not say its network, --nic would" in text for text in usual.graph["assumptions"])


@pytest.mark.parametrize(
    ("network", "wrong"),
    [
        ("5", "network is 5: expected a mapping"),
        ("{bandwidth: 0.5}", "bandwidth of network is 0.5: expected a number from 1"),
        ("{bandwidth: fast}", "bandwidth of network is 'fast'"),
        ("{bandwidth: 1e9, latency: -1}", "latency of network is -1: expected a number from 0"),
        ("{bandwidth: 1e9, source: 3}", "source of network is 3: expected a text"),
    ],
)
def test_a_network_that_is_none_is_refused_in_a_line(network, wrong, tmp_path):
    with pytest.raises(FileError, match=r"box\.yaml") as refusal:
        build(written(tmp_path, f"network: {network}"), nodes=2)
    assert wrong in str(refusal.value)


def test_a_file_of_several_machines_cannot_be_repeated(tmp_path):
    path = str(tmp_path / "two.json")
    write(topologies.find("dgx_h100")(2), path)

    with pytest.raises(ValueError, match="is of one size, 16 GPUs: it cannot be had 2 times"):
        build(path, nodes=2)
    with pytest.raises(ValueError, match="takes no fabric, it is one whole cluster"):
        build(path, fabric="fat_tree")


def test_the_file_alone_is_the_graph_in_it(tmp_path):
    path, graph = str(tmp_path / "one.json"), topologies.find("dgx_h100")(1)
    write(graph, path)

    assert parts(build(path)[0]) == parts(graph)
