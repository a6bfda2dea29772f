"""Each planted fault is found where it was planted, and its repair gives the graph without it."""

import pytest

import topologies
from tests.validation.a100_box import box
from topologies.dgx import dgx_a100, dgx_h100
from topologies.fabrics import parse
from topologies.findings import find
from topologies.laws import check, gpus
from topologies.pcie import rtx4090_box
from topologies.perlmutter import perlmutter
from topologies.units import GB, Gbit

NEAR = ["pcie0", "pcie0", "pcie1", "pcie1", "pcie2", "pcie2", "pcie3", "pcie3"]  # a NIC of its own for each GPU


def rates(graph):
    return {(a, b): round(link["bandwidth"]) for a, b, link in graph.edges(data=True)}


def changed(graph, links):
    """A copy with some links at other bytes/s, or without them where these are 0."""
    copy = graph.copy()
    for (tail, head), bandwidth in links.items():
        copy.edges[tail, head]["bandwidth"] = bandwidth
        if not bandwidth:
            copy.remove_edge(tail, head)
    return copy


def both(a, b, bandwidth):
    return {(a, b): bandwidth, (b, a): bandwidth}


@pytest.mark.parametrize("name", topologies.names())
def test_in_our_machines_nothing_is_wrong_that_is_not_how_they_are_built(name):
    size = 4 if name.startswith("tpu") else 2
    for one in find(topologies.find(name)(size)):
        assert one.by_design, one


PLANTED = {
    "slower one way": (
        dgx_a100(2),
        {("node0/pcie1", "node0/nic3"): 4 * GB},
        "pcie differs by direction",
        ("node0/pcie1 -> node0/nic3",),
    ),
    "one way only": (
        dgx_h100(2),
        {("rail1", "node1/nic1"): 0},
        "nic goes one way only",
        ("rail1 -> node1/nic1",),
    ),
    "fewer lanes": (
        dgx_a100(1),
        both("node0/gpu2", "node0/pcie1", 31.5 * GB / 2),
        "pcie trained down",
        ("node0/gpu2 -> node0/pcie1", "node0/pcie1 -> node0/gpu2"),
    ),
    "a slower cable": (
        dgx_h100(4),
        both("node2/nic5", "rail5", 200 * Gbit),
        "nic trained down",
        ("node2/nic5 -> rail5", "rail5 -> node2/nic5"),
    ),
    "an uplink": (
        dgx_h100(4, parse("fat_tree:leaf=8")),
        both("leaf1", "spine3", 10 * Gbit),
        "fabric trained down",
        ("leaf1 -> spine3", "spine3 -> leaf1"),
    ),
    "links of a GPU to the switch": (
        dgx_h100(1),
        both("node0/gpu3", "node0/nvswitch", 14 * 25 * GB),
        "NVLinks missing",
        ("node0/gpu3",),
    ),
    "links between two GPUs": (
        perlmutter(1),
        both("node0/gpu1", "node0/gpu2", 2 * 25 * GB),
        "NVLinks missing",
        ("node0/gpu1", "node0/gpu2"),
    ),
    "all links between two GPUs": (
        perlmutter(2),
        both("node1/gpu0", "node1/gpu3", 0),
        "NVLinks missing",
        ("node1/gpu0", "node1/gpu3"),
    ),
}


@pytest.mark.parametrize("graph, links, what, where", PLANTED.values(), ids=PLANTED)
def test_a_fault_is_found_where_it_was_planted_and_mended(graph, links, what, where):
    faulty = changed(graph, links)
    before = rates(faulty)

    (found,) = [one for one in find(faulty) if not one.by_design and one.what == what]

    assert sorted(found.where) == sorted(where)
    assert rates(found.mended()) == rates(graph)
    assert rates(faulty) == before
    check(found.mended())
    assert not [one for one in find(found.mended()) if not one.by_design]


def test_what_a_link_should_have_may_be_said():
    graph = changed(dgx_a100(1), both("node0/nvswitch", "node0/gpu0", 300 * GB))
    graph.edges["node0/pcie0", "node0/nic0"]["expected"] = 63 * GB

    (found,) = find(graph)

    assert found.what == "pcie trained down"
    assert found.how_bad == "31.5 GB/s instead of 63.0 GB/s"
    assert found.mended().edges["node0/pcie0", "node0/nic0"]["bandwidth"] == 63 * GB


def test_a_nic_on_the_cpu_is_found_and_moved_to_the_switch_of_its_gpu():
    graph = box(2, ["cpu0"])
    assert [one.what for one in find(graph) if not one.by_design] == [
        "no NIC on the GPU's socket",
        "NIC on the CPU, not on a GPU's PCIe switch",
    ]

    found = next(one for one in find(graph) if one.what.startswith("NIC on the CPU"))

    assert found.where == ("node0/nic0", "node1/nic0")
    assert found.mended().has_edge("node0/nic0", "node0/pcie0")
    assert not found.mended().has_edge("node0/nic0", "node0/cpu0")
    check(found.mended())


def test_gpus_without_a_nic_on_their_socket_are_found():
    graph = box(2, ["pcie0", "pcie1"])

    (found,) = [one for one in find(graph) if not one.by_design]

    assert found.what == "no NIC on the GPU's socket"
    assert len(found.where) == 8
    check(found.mended())
    assert not [one for one in find(found.mended()) if not one.by_design]


def test_a_gpu_that_names_a_far_nic_is_found():
    graph = box(2, NEAR)
    graph.nodes["node0/gpu0"]["nic"] = "node0/nic7"

    (found,) = find(graph)

    assert (found.what, found.how_bad) == (
        "GPU uses a far NIC",
        "across sockets, while another is on the same PCIe switch",
    )
    assert found.mended().nodes["node0/gpu0"]["nic"] in ("node0/nic0", "node0/nic1")


def test_of_nics_equally_far_the_one_that_a_gpu_names_is_told():
    graph = box(2, ["pcie0", "pcie1"])
    graph.nodes["node1/gpu7"]["nic"] = "node1/nic1"

    (found,) = [one for one in find(graph) if not one.by_design]

    assert "node1/gpu7 uses node1/nic1" in found.where
    assert "node1/gpu6 uses node1/nic0" in found.where


@pytest.mark.parametrize("access", [True, False])
def test_gpus_of_a_cpu_without_peer_to_peer_access_are_by_design(access):
    graph = rtx4090_box(2)
    for gpu in gpus(graph):
        graph.nodes[gpu]["peer_to_peer"] = access

    found = {one.what: one for one in find(graph)}

    assert ("through host memory" in found) is not access
    if not access:
        one = found["through host memory"]
        assert (one.by_design, len(one.where)) == (True, 16)
        assert "4.20 us between two GPUs of a CPU, 2.20 us with it" in one.how_bad
        check(one.mended())
        assert "through host memory" not in {other.what for other in find(one.mended())}


def test_access_control_on_switches_is_found_and_mended():
    graph = box(2, NEAR, acs=True)
    check(graph)

    (found,) = find(graph)

    assert found.what == "NIC traffic through the CPU"
    assert len(found.where) == 8
    assert not find(found.mended())


def test_shared_nics_and_a_narrow_fabric_are_by_design():
    shared, narrow = box(2, ["pcie0", "pcie2"]), dgx_h100(4, parse("fat_tree:leaf=8,oversubscription=2"))

    (one,) = find(shared)
    assert (one.what, one.by_design) == ("GPUs share a NIC", True)
    assert sum(kind == "nic" for _, kind in one.mended().nodes(data="kind")) == 16
    assert not find(one.mended())
    (other,) = find(narrow)
    assert (other.what, other.by_design, other.how_bad[:4]) == ("fabric is oversubscribed", True, "2:1,")
    assert "bisection 400 GB/s of 800 GB/s" in other.how_bad  # 16 NICs of 50 GB/s a half
    assert not find(other.mended())


@pytest.mark.parametrize(
    ("nodes", "fabric", "found"),
    [
        (16, "dragonfly", []),  # 16 NICs a switch, 31 cables to the others of its group
        (128, "dragonfly", []),  # 512 NICs a group, 512 cables to the other
        (128, "dragonfly:links=100", [("5.12:1, bytes/s of the NICs of a group", ("group 0", "group 1"))]),
        (12, "dragonfly:hosts=16,switches=4", [("5.33:1, bytes/s of the NICs of a switch", "group0/switch0")]),
        (8, "torus:x=8", [("4:1, bytes/s of the NICs of a switch", "router0")]),  # 8 NICs, a cable each way
        (2, "torus:x=2", [("8:1, bytes/s of the NICs of a switch", ("router0", "router1"))]),
        (16, "rail", []),
    ],
)
def test_cables_within_a_tier_are_held_against_the_nics_below_too(nodes, fabric, found):
    graph = dgx_h100(nodes, parse(fabric))
    said = [(one.how_bad, one.where) for one in find(graph)]

    assert len(said) >= len(found)
    assert bool(said) == bool(found)
    for (how, where), (begin, there) in zip(said, found, strict=False):
        assert how.startswith(begin)
        assert where == there if isinstance(there, tuple) else there in where
    for one in find(graph):
        check(one.mended())
        assert [rest for rest in find(one.mended()) if rest.by_design] == []


def test_a_switch_of_fewer_others_than_it_has_nics_need_not_send_all():
    # 40 NICs: 32 on the first switch, 8 on the second, so that no more than 8 cross; one cable is 8:1
    (one,) = find(dgx_h100(5, parse("dragonfly:hosts=32,switches=2")))

    assert one.how_bad.startswith("8:1, bytes/s of the NICs of a switch")
    assert one.where == ("group0/switch0", "group0/switch1")
