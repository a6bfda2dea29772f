"""From files of a machine to its graph: what is read, what is assumed aloud, what is refused."""

from dataclasses import replace
from itertools import combinations

import networkx as nx
import pytest

from topologies.files.assembly import machine_graph
from topologies.files.assembly.merge import merge
from topologies.files.facts import Accelerator, MachineFacts, Port
from topologies.laws import check
from topologies.units import GB, Gbit

TOPO = "nvidia-smi topo -m"


def machine(n, links, nics=(), numa=None, **more):
    """A machine of n GPUs with so many links between each two, or by pair."""
    pairs = links if isinstance(links, dict) else {pair: links for pair in combinations(range(n), 2) if links}
    numa = numa or (lambda gpu: None)
    gpus = tuple(Accelerator(i, numa=numa(i)) for i in range(n))
    return MachineFacts("topo.txt", more.pop("format", TOPO), gpus, tuple(map(Port, nics)), pairs, **more)


def status(ports, index=0, model="NVIDIA A100-SXM4-80GB"):
    return MachineFacts("nv.txt", "nvidia-smi nvlink -s", (Accelerator(index, model, ports=ports),))


def near(classes):
    """Classes by pair, both ways."""
    return classes | {(b, a): value for (a, b), value in classes.items()}


def built(*files, gpu=None, nic=None):
    graph = machine_graph(files, gpu, nic)
    check(graph)
    return graph


def assumed(graph, fact):
    return [text for text in graph.graph["assumptions"] if text.startswith(fact)]


def rate(graph, a, b):
    return graph.edges[a, b]["bandwidth"]


@pytest.mark.parametrize(
    ("gpus", "links", "gpu", "through", "total"),
    [
        (8, 18, "H100-SXM5-80", "nvswitch", 450),
        (8, 12, "A100-SXM4-80", "nvswitch", 300),
        (16, 6, "V100-SXM2-32", "nvswitch", 150),
        (8, 8, "H800-SXM5-80", "nvswitch", 200),
        (4, 4, "A100-SXM4-80", None, 100),
        (4, 6, "H100-SXM5-80", None, 150),
        (2, 4, "RTX3090-24", None, 56.25),
        (2, 12, "A100-PCIe-80", None, 300),
        (2, 18, "H100-SXM5-80", "nvswitch", 450),
        (2, 6, "V100-SXM2-32", "nvswitch", 150),
    ],
)
def test_links_that_look_alike_are_switches_or_cables_by_the_sum_over_peers(gpus, links, gpu, through, total):
    graph = built(machine(gpus, links))

    assert graph.nodes["gpu0"]["gpu"] == gpu
    assert ("nvswitch" in graph) == (through is not None)
    assert rate(graph, "gpu0", through or "gpu1") == total * GB
    assert graph.graph["warnings"] == [f"assumes {gpu}: topo.txt does not name the GPU; say --gpu"]
    assert assumed(graph, f"gpu: {gpu}; topo.txt does not name the GPU: ")
    assert assumed(graph, "nvlink: through NVSwitches" if through else "nvlink: cables between pairs")


def test_a_hybrid_cube_mesh_is_cables():
    mesh = {(0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2, (2, 6): 1}
    mesh |= {(3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2}
    graph = built(machine(8, mesh))

    assert graph.nodes["gpu0"]["gpu"] == "V100-SXM2-32"
    assert rate(graph, "gpu0", "gpu3") == 50 * GB
    assert not graph.has_edge("gpu0", "gpu7")


def test_bridges_between_pairs_leave_the_rest_to_pcie():
    graph = built(machine(4, {(0, 1): 12, (2, 3): 12}, numa=lambda gpu: gpu // 2))

    assert graph.nodes["gpu0"]["gpu"] == "A100-PCIe-80"
    assert rate(graph, "gpu2", "gpu3") == 300 * GB
    assert nx.shortest_path(graph, "gpu1", "gpu2") == ["gpu1", "cpu0", "cpu1", "gpu2"]


def test_few_links_of_a_bridge_may_be_an_older_cards_and_the_reason_says_both():
    (reason,) = assumed(built(machine(2, 2)), "gpu: RTX3090-24; ")

    assert "2 of the 4 NVLinks of an RTX 3090, with others down, or all of an older card's" in reason
    assert "(TITAN RTX, RTX 2080 Ti), which are not in the table; say --gpu" in reason


def test_a_gpu_of_too_few_links_is_refused_and_one_that_fits_is_read_by_its_count():
    with pytest.raises(ValueError, match="GPU 0 has 18 links to a peer and 126 to all, A100-SXM4-80 has 12: say --gpu"):
        built(machine(8, 18), gpu="a100")
    assert built(machine(8, 18), gpu="h200").nodes["gpu0"]["gpu"] == "H200-SXM-141"


def test_inactive_links_lower_the_count_of_that_gpu_and_stay_visible():
    ports = (25 * GB,) * 10 + (0.0,) * 2
    graph = built(machine(8, 12), status(ports, index=3))

    assert rate(graph, "gpu3", "nvswitch") == 250 * GB
    assert graph.edges["gpu3", "nvswitch"]["expected"] == graph.edges["nvswitch", "gpu3"]["expected"] == 300 * GB
    assert rate(graph, "gpu0", "nvswitch") == 300 * GB
    assert "expected" not in graph.edges["gpu0", "nvswitch"]
    assert assumed(graph, "nvlink.bandwidth: the same for all GPUs; nv.txt lists 1 of 8")
    assert graph.graph["sources"]["nvlink.bandwidth"].startswith(
        "nv.txt (nvidia-smi nvlink -s); links counted by topo.txt"
    )


def test_a_gpu_none_of_whose_links_is_up_has_none():
    off, up = (0.0,) * 12, (25 * GB,) * 12
    switched = built(machine(8, 12), status(off, index=3))
    cabled = built(machine(4, 4), status(off, index=3))
    alone = built(*(status(off if i == 1 else up, index=i) for i in range(3)))

    none = built(machine(8, 12), *(status(off, index=i) for i in range(8)))

    assert "nvswitch" not in none
    for graph, gpu in ((switched, "gpu3"), (cabled, "gpu3"), (alone, "gpu1")):
        assert {graph.edges[gpu, head]["kind"] for head in graph[gpu]} == {"pcie"}
    assert assumed(switched, "nvlink: GPU 3: none of 12 links is up by nv.txt: left out")
    assert assumed(cabled, "nvlink: GPU 3: none of 12 links is up by nv.txt: left out")


def test_a_slow_link_counts_in_part():
    ports = (25 * GB,) * 8 + (12.5 * GB,) * 4
    graph = built(machine(8, 12), status(ports, index=3))

    assert rate(graph, "gpu3", "nvswitch") == 250 * GB
    assert graph.edges["gpu3", "nvswitch"]["expected"] == 300 * GB
    assert assumed(graph, "nvlink: GPU 3: 10 of 12 links are up by nv.txt, a slow one counted in part")


A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize("gpu", [None, "h100", "a100"])
@pytest.mark.parametrize(
    ("counted", "ports", "model", "wrong"),
    [
        (18, 12, A100, r"counts 18 NVLinks of GPU 0, nv.txt \(.*\) lists 12 of NVIDIA A100-SXM4-80GB: they must be of"),
        (
            12,
            18,
            H100,
            r"counts 12 NVLinks of GPU 0, nv.txt \(.*\) has 18 up of NVIDIA H100 80GB HBM3: they must be of",
        ),
        (18, 12, None, r"counts 18 NVLinks of GPU 0, nv.txt \(.*\) lists 12: they must be of one machine"),
    ],
)
def test_files_of_two_machines_are_refused_in_a_line_with_both_counts(counted, ports, model, wrong, gpu):
    if (counted, gpu) == (12, "a100"):
        wrong = "GPU 0 has 18 links up, A100-SXM4-80 has 12: say --gpu"
    with pytest.raises(ValueError, match=wrong):
        built(machine(8, counted), *(status((25 * GB,) * ports, i, model) for i in range(8)), gpu=gpu)


def test_cables_that_a_listing_has_no_ports_for_are_refused():
    with pytest.raises(ValueError, match=r"counts 12 NVLinks of GPU 0, nv.txt .* lists 6 of Tesla V100"):
        built(machine(4, 4), *(status((25 * GB,) * 6, i, "Tesla V100-SXM2-32GB") for i in range(4)), gpu="a100")


def test_one_gpu_of_more_links_up_than_are_counted_is_said_aloud():
    counted = {pair: 11 if 3 in pair else 12 for pair in combinations(range(8), 2)}
    graph = built(machine(8, counted), *(status((25 * GB,) * 12, index=i) for i in range(8)))

    assert rate(graph, "gpu3", "nvswitch") == 275 * GB
    assert assumed(graph, "nvlink: GPU 3: nv.txt has 12 links up, topo.txt counts 11: the lesser is taken")


def test_more_links_up_than_the_model_has_are_refused():
    with pytest.raises(ValueError, match=r"nv.txt .*: GPU 0 has 13 links up, A100-SXM4-80 has 12: say --gpu"):
        built(status((25 * GB,) * 13))


def test_links_that_are_off_by_design_are_not_missed():
    ports = (26.562 * GB,) * 12 + (0.0,) * 6
    graph = built(status(ports, model="NVIDIA H100 PCIe"))

    assert rate(graph, "gpu0", "nvswitch") == 300 * GB  # what carries data, of 26.562 that are signalled
    assert "expected" not in graph.edges["gpu0", "nvswitch"]
    assert assumed(graph, "nvlink.bandwidth: 25 GB/s a link; nv.txt prints what it signals")


def test_a_listing_of_ports_alone_says_that_it_does_not_know_where_they_lead():
    graph = built(status((25 * GB,) * 4 + (0.0,) * 2, model="Tesla V100-SXM2-32GB"))

    assert rate(graph, "gpu0", "nvswitch") == 100 * GB
    assert graph.edges["gpu0", "nvswitch"]["expected"] == 150 * GB
    assert assumed(graph, "nvlink: through one NVSwitch; nv.txt does not say where links lead")


CLASSES = near(
    {
        ("gpu0", "gpu1"): "PIX",
        ("gpu0", "gpu2"): "PXB",
        ("gpu1", "gpu2"): "PXB",
        ("gpu0", "gpu3"): "PHB",
        ("gpu1", "gpu3"): "PHB",
        ("gpu2", "gpu3"): "PHB",
        ("gpu0", "gpu4"): "SYS",
        ("gpu1", "gpu4"): "SYS",
        ("gpu2", "gpu4"): "SYS",
        ("gpu3", "gpu4"): "SYS",
    }
)


def test_classes_of_paths_become_a_tree():
    graph = built(machine(5, 0, near=CLASSES), gpu="l40s")
    plain = graph.to_undirected()
    through = {
        pair: [graph.nodes[node]["kind"] for node in nx.shortest_path(plain, *pair)[1:-1]]
        for pair in (("gpu0", "gpu1"), ("gpu0", "gpu2"), ("gpu2", "gpu3"), ("gpu0", "gpu3"), ("gpu3", "gpu4"))
    }

    assert through == {
        ("gpu0", "gpu1"): ["pcie"],
        ("gpu0", "gpu2"): ["pcie", "pcie"],
        ("gpu2", "gpu3"): ["pcie", "cpu"],
        ("gpu0", "gpu3"): ["pcie", "pcie", "cpu"],
        ("gpu3", "gpu4"): ["cpu", "cpu"],
    }
    assert {data["kind"] for _, _, data in graph.edges(data=True)} == {"pcie", "socket"}
    assert assumed(graph, "pcie.bandwidth: 31.5 GB/s, an x16 slot of L40S-48")


def test_classes_that_fit_into_no_tree_give_the_nearest_one_and_say_so():
    bent = CLASSES | near({("gpu0", "gpu2"): "SYS"})
    graph = built(machine(5, 0, near=bent), gpu="l40s")

    assert assumed(graph, "pcie: 1 pairs of devices do not fit into a tree") == [
        "pcie: 1 pairs of devices do not fit into a tree and are taken to be nearer than printed; "
        "first, gpu0 and gpu2, SYS, are taken as PXB"
    ]


def test_without_peer_to_peer_access_nothing_passes_a_switch_but_through_the_cpu():
    graph = built(machine(5, 0, near=CLASSES, peer_to_peer=False), gpu="l40s")
    path = nx.shortest_path(graph, "gpu0", "gpu1")

    assert path == ["gpu0", "pcie0/up", "pcie1/up", "cpu0", "pcie1/down", "pcie0/down", "gpu1"]
    assert assumed(graph, "pcie: through host memory, without peer-to-peer access; topo.txt")


def test_cards_whose_driver_bars_peers_are_staged_unless_a_file_says_otherwise():
    classes = near({("gpu0", "gpu1"): "PIX"})
    barred, allowed = (built(machine(2, 0, near=classes, peer_to_peer=said), gpu="4090") for said in (None, True))

    assert nx.shortest_path(barred, "gpu0", "gpu1") == ["gpu0", "pcie0/up", "cpu0", "pcie0/down", "gpu1"]
    assert nx.shortest_path(allowed, "gpu0", "gpu1") == ["gpu0", "pcie0", "gpu1"]
    assert assumed(barred, "pcie: through host memory; the driver lets no RTX4090-24")


def test_nothing_said_of_pcie_puts_all_on_one_cpu_aloud():
    graph = built(machine(3, 0))

    assert nx.shortest_path(graph, "gpu0", "gpu2") == ["gpu0", "cpu0", "gpu2"]
    assert assumed(graph, "pcie: all devices on one CPU; topo.txt does not say where they are")


def dgx(nics=("mlx5_0", "mlx5_1", "mlx5_2"), **more):
    """Four GPUs on two sockets, a NIC beside each two, and a third NIC that is near none."""
    classes = {(f"gpu{i}", f"mlx5_{j}"): "PXB" if i // 2 == j else "SYS" for i in range(4) for j in range(3)}
    return machine(4, 12, nics, numa=lambda gpu: gpu // 2, near=near(classes), **more)


def test_gpus_use_the_nearest_nic_and_one_that_is_nearest_to_none_is_left_out_aloud():
    graph = built(dgx())

    assert [graph.nodes[f"gpu{i}"]["nic"] for i in range(4)] == ["mlx5_0", "mlx5_0", "mlx5_1", "mlx5_1"]
    assert "mlx5_2" not in graph
    assert graph.graph["left_out"] == ["topo.txt: NICs mlx5_2: no GPU's nearest"]
    assert graph.graph["network"].bandwidth == 200 * Gbit
    assert "HDR, as in a DGX A100; topo.txt does not say, --nic would" in graph.graph["network"].source


def test_equally_near_nics_are_shared_fairly():
    classes = {(f"gpu{i}", f"n{j}"): "PXB" for i in range(4) for j in range(2)}
    graph = built(machine(4, 12, ("n0", "n1"), near=near(classes)))

    assert sorted(graph.nodes[f"gpu{i}"]["nic"] for i in range(4)) == ["n0", "n0", "n1", "n1"]


def test_the_speed_of_nics_is_the_files_then_as_asked_for():
    assert built(dgx(), nic=50 * GB).graph["network"].bandwidth == 50 * GB
    facts = dgx()
    fast = MachineFacts(**{**vars(facts), "nics": tuple(Port(nic.name, 25 * GB) for nic in facts.nics)})
    assert built(fast).graph["network"].source == "topo.txt (nvidia-smi topo -m)"
    with pytest.raises(ValueError, match=r"nic 50.0 GB/s: .*topo.txt .* says 25.0 GB/s; leave --nic out"):
        built(fast, nic=50 * GB)


def test_the_slower_of_two_kinds_of_nics_is_left_out():
    facts = dgx()
    speeds = (12.5 * GB, 25 * GB, 12.5 * GB)
    mixed = MachineFacts(
        **{**vars(facts), "nics": tuple(Port(n.name, s) for n, s in zip(facts.nics, speeds, strict=True))}
    )
    graph = built(mixed)

    assert {graph.nodes[f"gpu{i}"]["nic"] for i in range(4)} == {"mlx5_1"}
    assert "topo.txt: NICs mlx5_0, mlx5_2: slower than others" in graph.graph["left_out"]


def test_a_machine_without_nics_gets_one_a_gpu_when_their_speed_is_given():
    graph = built(machine(8, 18), nic=50 * GB)

    assert [graph.nodes[f"gpu{i}"]["nic"] for i in range(8)] == [f"nic{i}" for i in range(8)]
    assert assumed(graph, "nic: one of 50.0 GB/s for each GPU, as asked for; the files show none")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (machine(4, 18), "topo.txt has 8 GPUs, topo.txt 4: they must agree"),
        (machine(8, 12), "has 18 links between GPUs 0 and 1, topo.txt 12: they must agree"),
        (status((25 * GB,) * 18, index=9), "nv.txt lists GPU 9, topo.txt has GPU 0 to 7: they must agree"),
    ],
)
def test_files_of_different_machines_are_refused_by_name(other, message):
    with pytest.raises(ValueError, match=message):
        merge([machine(8, 18), other])


def test_two_names_of_one_gpu_must_be_of_one_model():
    with pytest.raises(ValueError, match=r"nv.txt .* calls GPU 0 .*A100.*, nv.txt .*H100.*: they must agree"):
        merge([machine(1, 0), status((25 * GB,) * 12), status((25 * GB,) * 12, model="NVIDIA H100 80GB HBM3")])


def test_a_gpu_of_no_known_name_is_guessed_by_its_links_and_the_name_is_told():
    graph = built(machine(8, 18), status((50 * GB,) * 18, model="NVIDIA Z900"))

    assert graph.nodes["gpu0"]["gpu"] == "H100-SXM5-80"
    assert graph.graph["warnings"] == [
        "assumes H100-SXM5-80: nv.txt calls it NVIDIA Z900, of which no numbers are known; say --gpu"
    ]
    assert rate(graph, "gpu0", "nvswitch") == 900 * GB


def test_every_number_and_every_guess_has_its_reason():
    graph = built(dgx())

    assert all(
        text.partition(": ")[2].count(";") or "." in text.partition(":")[0] for text in graph.graph["assumptions"]
    )
    assert all(";" in text for text in assumed(graph, "gpu: ") + assumed(graph, "nvlink: "))


@pytest.mark.parametrize(
    ("cpu", "gb"),
    [
        (("GenuineIntel", 6, 207), 40),
        (("GenuineIntel", 6, 143), 22),
        (("GenuineIntel", 6, 106), 10),
        (("GenuineIntel", 6, 79), 6),
        (("AuthenticAMD", 25, 1), 16),
        (("Other", 1, 1), 16),  # of the A100's hosts
        (None, 16),
    ],
)
def test_the_link_between_cpus_is_that_of_the_cpus_that_a_file_names(cpu, gb):
    graph = built(machine(2, 0, numa=lambda gpu: gpu, cpu=cpu), gpu="A100-PCIe-80")

    assert rate(graph, "cpu0", "cpu1") == gb * GB
    assert [text.partition(";")[0] for text in assumed(graph, "socket.bandwidth")] == [f"socket.bandwidth: {gb} GB/s"]


def test_a_nic_is_as_fast_as_the_card_that_a_file_names():
    facts = machine(8, 12, ["nic0"], lambda gpu: 0)
    named = replace(facts, nics=(Port("nic0", numa=0, card="EFA of p4d"),))

    assert built(facts).graph["network"].bandwidth == 200 * Gbit  # as in a DGX A100
    assert built(named).graph["network"].bandwidth == 100 * Gbit
    assert built(named, nic=25 * GB).graph["network"].bandwidth == 200 * Gbit
