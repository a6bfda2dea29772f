"""Pictures put tiers in rows, draw what is alike once, and let no two boxes overlap."""

import time
from itertools import combinations

import networkx as nx
import pytest

import topologies
from topologies import fabrics
from topologies.dgx import dgx_a100, dgx_h100
from topologies.drawing.columns import spread
from topologies.drawing.layers import layout
from topologies.drawing.outline import outline
from topologies.drawing.parts import stem
from topologies.links import Link, cable
from topologies.nvl72 import gb200_nvl72

LINK = Link("pcie", 1e9, 0.0)


def on(machine, count, fabric):
    return topologies.find(machine)(count, fabric=fabrics.parse(fabric))


GRAPHS = {name: topologies.find(name) for name in topologies.names()}
GRAPHS |= {f"{name} x 8": lambda name=name: on("dgx_h100", 8, name) for name in fabrics.names()}
GRAPHS |= {f"{name} x 128": lambda name=name: on("dgx_h100", 128, name) for name in fabrics.names()}
GRAPHS |= {"three tiers": lambda: on("dgx_h100", 64, "fat_tree:ports=16"), "racks": lambda: gb200_nvl72(3)}


@pytest.mark.parametrize("name", GRAPHS)
def test_no_two_boxes_overlap_and_frames_hold_their_own(name):
    drawn = layout(GRAPHS[name]())

    assert all(a.apart(b) for a, b in combinations(drawn.spots, 2))
    assert all(a.apart(b) for a, b in combinations(drawn.frames, 2))
    for box, spot in zip(drawn.outline.boxes, drawn.spots, strict=True):
        for number, frame in enumerate(drawn.frames):
            inside = abs(spot.x - frame.x) + spot.width / 2 < frame.width / 2
            inside &= abs(spot.y - frame.y) + spot.height / 2 < frame.height / 2
            assert inside if box.frame == number else spot.apart(frame)


@pytest.mark.parametrize("name", GRAPHS)
def test_boxes_and_totals_count_every_node_and_link_once(name):
    graph = GRAPHS[name]()
    drawn = outline(graph)
    devices = {n.rpartition("/")[0] if n.endswith(("/up", "/down")) else n for n in graph}

    assert sum(drawn.nodes.values()) == len(devices)
    assert sum(total.strand.there + total.strand.back for total in drawn.totals) == graph.number_of_edges()


def rows(graph):
    return [row.name for row in layout(graph).rows]


def test_tiers_stand_in_order():
    assert rows(dgx_h100(1)) == ["NIC", "GPU", "NVSwitch"]
    assert rows(dgx_a100(1)) == ["NIC", "PCIe switch", "GPU", "NVSwitch"]
    assert rows(topologies.find("dgx1_v100")()) == ["NIC", "CPU", "PCIe switch", "GPU"]
    assert rows(dgx_h100(16)) == ["spine", "rail", "NIC", "GPU", "NVSwitch"]
    assert rows(on("dgx_h100", 64, "fat_tree:ports=16")) == ["core", "spine", "leaf", "NIC", "GPU", "NVSwitch"]


def test_gpus_stand_in_rank_order():
    drawn = layout(dgx_a100(2))
    gpus = [(s.x, b.first) for b, s in zip(drawn.outline.boxes, drawn.spots, strict=True) if b.kind == "gpu"]

    assert [name for _, name in sorted(gpus)] == [f"node{n}/gpu{i}" for n in range(2) for i in range(8)]


def test_a_machine_is_drawn_in_full_and_those_alike_once():
    drawn = outline(dgx_h100(128))

    assert [(frame.name, frame.count) for frame in drawn.frames] == [("node0", 128)]
    assert {(box.label, box.nodes) for box in drawn.boxes if box.kind == "gpu"} == {(f"gpu{i}", 128) for i in range(8)}
    assert {box.label for box in drawn.boxes if box.kind == "switch"} == {"spine", *(f"rail{i}" for i in range(8))}


def test_machines_under_different_leaves_are_apart():
    drawn = outline(on("dgx_h100", 16, "fat_tree"))  # 128 NICs under four leaves of 32

    assert [box.label for box in drawn.boxes if box.kind == "machine"] == ["node4–7", "node8–11", "node12–15"]
    assert [(b.label, b.nodes) for b in drawn.boxes if b.kind == "switch" and b.tier == 2] == [("spine0–31", 32)]


def test_a_rack_is_trays_around_an_nvswitch():
    drawn = outline(gb200_nvl72(1))

    assert [(frame.name, frame.count) for frame in drawn.frames] == [("rack0/tray0", 18)]
    assert [(b.label, b.nodes, b.frame) for b in drawn.boxes if b.kind == "nvswitch"] == [("rack0/nvswitch", 1, -1)]


def test_a_way_up_and_a_way_down_are_one_switch():
    drawn = outline(topologies.find("pcie_box")())

    assert [(box.label, box.one_way) for box in drawn.boxes if box.kind == "pcie"] == [("pcie0", True), ("pcie1", True)]


def test_a_torus_is_sorted_by_hops():
    boxes = [box for box in outline(topologies.find("tpu_v4")(64)).boxes if box.kind == "gpu"]

    assert [box.nodes for box in boxes] == [1, 6, 15, 20, 15, 6, 1]  # of a torus of 4 x 4 x 4: (1 + 2z + z^2)^3
    assert [box.label for box in boxes[:3]] == ["chip0.0.0", "1 hop", "2 hops"]


def test_boxes_are_moved_as_little_as_they_must_be():
    assert spread([0, 5], [1, 1]) == [0, 5]
    assert spread([2, 2], [1, 1]) == [1.5, 2.5]
    assert spread([0, 0, 9], [2, 2, 2]) == [-1, 1, 9]


@pytest.mark.parametrize(
    "name, word", [("pod0/spine3", "spine"), ("core0.1", "core"), ("ib-sw-12", "ib-sw"), ("7", "7")]
)
def test_a_stem_is_a_name_without_its_number(name, word):
    assert stem(name) == word


@pytest.mark.parametrize("fabric", ["rail", "fat_tree"])
def test_16384_gpus_are_laid_out_in_seconds(fabric):
    graph = on("dgx_h100", 2048, fabric)
    start = time.process_time()
    drawn = layout(graph)

    assert time.process_time() - start < 10
    assert len(drawn.outline.boxes) < 40


def test_a_tree_of_pcie_switches_hangs_from_its_cpu():
    graph = nx.DiGraph(name="tree", sources={}, assumptions=[])
    kinds = {"cpu0": "cpu", "top": "pcie", "low0": "pcie", "low1": "pcie", "nic0": "nic"}
    for node, kind in kinds.items():
        graph.add_node(node, kind=kind, host="h")
    for i in range(2):
        graph.add_node(f"gpu{i}", kind="gpu", rank=i, flop_rate=1e15, host="h")
        cable(graph, f"gpu{i}", f"low{i}", LINK)
        cable(graph, f"low{i}", "top", LINK)
    cable(graph, "top", "cpu0", LINK)
    cable(graph, "top", "nic0", LINK)
    drawn = layout(graph)
    y = {box.label: spot.y for box, spot in zip(drawn.outline.boxes, drawn.spots, strict=True)}

    assert rows(graph) == ["NIC", "CPU", "PCIe switch", "PCIe switch", "GPU"]
    assert y["nic0"] < y["cpu0"] < y["top"] < y["low0"] == y["low1"] < y["gpu0"]


def test_the_makes_of_which_there_are_most_are_drawn_in_full():
    graph = dgx_h100(8)
    for n, i in ((0, 3), (1, 4), (2, 5)):  # three machines each of a make of its own
        graph.edges[f"node{n}/gpu{i}", f"node{n}/nvswitch"]["bandwidth"] /= 2

    assert 5 in [frame.count for frame in outline(graph).frames]
