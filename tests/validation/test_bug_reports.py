"""Public reports of clusters that were too slow: the set-up as told, near what was expected; its cause, near measured.

The set-ups are graphs, the figures busbw of an all-reduce by rings of large messages unless another is named. What is
near: within 10 %, as near as the large-message end of measured curves elsewhere (test_busbw.py). What cannot be met
is said at the case, with the figure.
"""

import pytest

from sim.bandwidths import Bandwidths
from sim.repairs import repairs
from tests.validation.a100_box import box
from topologies.alps import alps_gh200
from topologies.dgx import dgx_a100, dgx_h100
from topologies.nics import NDR
from topologies.units import GB
from topologies.volta import dgx1_v100, dgx2

NEAR = 0.10
NIC = 0.97  # of its data-sheet bandwidth a NIC reaches


def near(figure):
    return pytest.approx(figure * GB, rel=NEAR)


def faults(graph):
    """What is found wrong with a graph: repair by finding."""
    return {one.finding.what: one for one in repairs(graph)[1] if not one.finding.by_design}


def test_a100_virtual_machines_with_access_control_on_the_switches():
    # github.com/NVIDIA/nccl/issues/949: 2 nodes, 2 HDR NICs each; 48 GB/s expected and reached after the setting, 56 %
    # of it before. What goes from GPU to NIC goes up one link of the switch, and what comes in too: half of PCIe each.
    places = ["pcie0", "pcie2"]
    sound, faulty = box(2, places), box(2, places, acs=True)

    assert Bandwidths(sound).all_reduce == near(48)
    assert Bandwidths(faulty).all_reduce == near(0.56 * 48)
    repair = faults(faulty)["NIC traffic through the CPU"]
    assert repair.all_reduce_mended == Bandwidths(sound).all_reduce


def test_one_nic_of_a100s_with_access_control_on_the_switches():
    # github.com/NVIDIA/nccl-tests/issues/112: one 200G RoCE NIC a node; ib_write_bw gives 22.5 GB/s; 9.84 measured, the
    # average over all sizes. The maintainers call it halved. Here it is halved from PCIe's 27.4 to 13.7, and not
    # from the NIC's: 39 % above that average of small and large messages, with which no large-message figure compares.
    sound, faulty = box(2, ["pcie0"]), box(2, ["pcie0"], acs=True)

    assert Bandwidths(sound).all_reduce == near(22.5)
    assert Bandwidths(faulty).all_reduce == pytest.approx(0.87 * 31.5 * GB / 2)
    assert Bandwidths(faulty).all_reduce > 9.84 * GB
    assert "NIC traffic through the CPU" in faults(faulty)


def test_gh200_over_sockets_instead_of_the_network_library():
    # github.com/eth-cscs/cscs-docs: 2 nodes of 4 GH200, 4 Slingshot NICs of 25 GB/s; at 128 MiB 122.57 GB/s with the
    # hook, 5.43 without. Two nodes let trees beat rings. The curve still rises at 128 MiB (its last doubling runs at
    # 142 GB/s): measured lies between ring and tree, 97 and 156; neither is within 10 %. That TCP is slow is no
    # property of the graph: four NICs of 1.4 GB/s would be as slow, and nothing here says that they are.
    found = Bandwidths(alps_gh200(2))

    assert found.tree is not None
    assert found.all_reduce < 122.57 * GB < found.tree


def test_twelve_a800_nodes_with_one_nic_on_the_cpu():
    # github.com/NVIDIA/nccl/issues/412: 24 GB/s expected with the NIC on a GPU's switch, about 160 inside a node; 15.3
    # measured, and 16 called normal for a NIC on the CPU. That rate is the maintainers', not a law of the graph: put
    # on the link between CPU and NIC it comes out as it went in.
    sound, faulty = box(12, ["pcie0"], gpu="A800-SXM4-80"), box(12, ["cpu0"], gpu="A800-SXM4-80", cpu_rate=16 * GB)

    assert Bandwidths(sound).all_reduce == near(24)
    assert Bandwidths(box(1, [], gpu="A800-SXM4-80")).all_reduce == near(160)
    assert Bandwidths(faulty).all_reduce == near(15.3)
    repair = faults(faulty)["NIC on the CPU, not on a GPU's PCIe switch"]
    assert repair.finding.where == tuple(f"node{n}/nic0" for n in range(12))


def test_two_h100_nodes_that_use_the_wrong_adapters():
    # github.com/NVIDIA/nccl-tests/issues/290: 8 NDR NICs; 370 expected of rings, 473.6 on one node with NVLS, which
    # rings do not model. Measured 155.57, not explained, and 89.90 with another list of adapters and rings, which
    # behaves like two NICs a node.
    assert Bandwidths(dgx_h100(2)).all_reduce == near(370)
    assert Bandwidths(dgx_h100(1)).all_reduce == near(370)
    assert Bandwidths(h100_box(2, ["pcie0", "pcie2"])).all_reduce == near(89.90)


def test_v100s_in_a_mesh_and_on_switches():
    # github.com/NVIDIA/nccl/issues/258: 130 GB/s on the mesh of a DGX-1, 122 through the NVSwitch of a DGX-2. Six links
    # of 25 GB/s are as fast in both here, 123: that the switch takes a little more is not modelled.
    assert Bandwidths(dgx1_v100(1)).all_reduce == near(130)
    assert Bandwidths(dgx2(1)).all_reduce == near(122)


def test_all_gather_below_all_reduce_on_256_h100():
    # github.com/NVIDIA/nccl/issues/1218: 32 nodes of 8, 8 NICs, 2 GB: all-gather 200 GB/s, all-reduce 340. Rings of
    # both move blocks of 8 MB and reach the same: 388 without latency, 14 % above the all-reduce, which the switches
    # may have helped along. With the 14 us a step that the library's own tables give a network hop: 236, 18 %
    # above the all-gather, of which one iteration without a warm-up was timed.
    found, block = Bandwidths(dgx_h100(32)), 2**31 / 256

    with_latency = block / (block / found.all_reduce + 14e-6)

    assert 340 * GB < found.all_reduce == pytest.approx(388 * GB)
    assert 200 * GB < with_latency == pytest.approx(236 * GB, rel=0.01)


def test_300_h100_nodes_with_four_nics():
    # github.com/NVIDIA/nccl/issues/1454: 4 x about 48 GB/s expected; 14 measured, of which no cause is told.
    assert Bandwidths(h100_box(300, ["pcie0", "pcie1", "pcie2", "pcie3"])).all_reduce == near(4 * 48)


def test_a100_nodes_whose_nics_may_read_more_at_once():
    # github.com/NVIDIA/nccl-tests/issues/152: 4 HDR NICs, about 96 GB/s expected; 93.25 at 128 MiB and 89.65 at 2 GiB
    # after the NICs were allowed more outstanding reads. What it was before is not told.
    sound = box(2, ["pcie0", "pcie1", "pcie2", "pcie3"])

    assert Bandwidths(sound).all_reduce == near(96)
    assert Bandwidths(sound).all_reduce == near(93.25)
    assert Bandwidths(sound).all_reduce == near(89.65)


@pytest.mark.parametrize("nodes", [2, 3, 4, 8, 16])
def test_the_rule_for_an_all_to_all(nodes):
    # github.com/NVIDIA/nccl-tests/issues/130: busbw = N/(N-1) NIC for N nodes and a NIC of its own for every GPU
    rule = nodes / (nodes - 1) * NIC * 50

    assert Bandwidths(dgx_h100(nodes)).all_to_all == near(rule)


def test_nothing_is_wrong_with_the_sound_set_ups():
    for graph in (dgx_a100(2), dgx_h100(2), box(2, ["pcie0", "pcie2"] * 2)):
        assert not set(faults(graph)) - {"no NIC on the GPU's socket"}


def h100_box(nodes, nics):
    """H100 machines with fewer NICs than GPUs, on switches of their own."""
    return box(nodes, nics, gpu="H100-SXM5-80", network=NDR)
