"""Options of every fabric: how many NICs, how fast, PXN or the spine, GPUDirect or the CPU's memory."""

from functools import partial
from itertools import pairwise

import networkx as nx
import pytest

from sim.network import Network
from tests.sim.graphs import us
from topologies.attach import Attachment, attachment
from topologies.cluster import cluster, machine
from topologies.dgx import dgx_a100, dgx_h100
from topologies.fabrics.rail import rail
from topologies.laws import check
from topologies.links import Link, cable
from topologies.nics import NDR
from topologies.nvl72 import gb200_nvl72
from topologies.options import build
from topologies.perlmutter import perlmutter
from topologies.units import GB, Gbit

MACHINES = ["dgx_a100", "dgx_h100", "gb200_nvl72", "perlmutter"]
OTHERS = ["alps_gh200", "aws_p4d", "dgx1_v100", "dgx2", "frontier", "l40s_box", "mi300x", "pcie_box", "rtx4090_box"]
CHOSEN = ["nics=1", "nics=2", "nics=4", "gbit=100", "gpudirect=0", "nics=2,gbit=50,gpudirect=0"]


def on(cluster, fabric, nodes=3):
    return build(cluster, nodes, None, fabric)[0]


def way(graph, source, destination):
    """The nodes on a route, and its seconds."""
    network = Network(graph)
    (row,) = network.route([source], [destination])
    links = [network.links[link] for link in row if link != network.pad]
    return [links[0][0], *(head for _, head in links)], network.latency[row].sum()


def kinds(graph, path):
    return [graph.nodes[node]["kind"] for node in path]


@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("cluster", [*MACHINES, *OTHERS])
@pytest.mark.parametrize("fabric", ["rail", "dragonfly", "torus"])
def test_any_machine_on_any_fabric_with_any_option_keeps_the_laws(cluster, fabric, chosen):
    graph = on(cluster, f"{fabric}:{chosen}", 2)

    check(graph)
    assert graph.graph["fabric"] == f"{fabric}({chosen.replace(',', ', ')})"
    assert graph.graph["name"] == f"{cluster}(2) on {graph.graph['fabric']}"
    network = Network(graph)
    network.route([0, 1], [network.ranks - 1, network.ranks - 2])


@pytest.mark.parametrize("cluster", [dgx_a100, dgx_h100, perlmutter, gb200_nvl72])
def test_what_is_as_it_is_changes_nothing(cluster):
    own = cluster(2, rail)
    hosts = {data["host"] for _, data in own.nodes(data=True) if data["kind"] == "nic"}
    nics = sum(kind == "nic" for _, kind in own.nodes(data="kind")) // len(hosts)
    same = cluster(2, partial(rail, nics=nics, pxn=0, gpudirect=1))

    assert dict(same.nodes) == dict(own.nodes)
    assert dict(same.edges) == dict(own.edges)
    assert same.graph["assumptions"] == own.graph["assumptions"]


@pytest.mark.parametrize("cluster, each", [("dgx_a100", 8), ("dgx_h100", 8), ("perlmutter", 4), ("gb200_nvl72", 4)])
@pytest.mark.parametrize("nics", [1, 2, 4])
def test_gpus_take_the_nics_in_equal_shares(cluster, each, nics):
    graph = on(cluster, f"rail:nics={nics}", 2)
    gpus = {data["rank"]: data for _, data in graph.nodes(data=True) if data["kind"] == "gpu"}

    for rank, data in gpus.items():
        assert data["nic"].endswith(f"/nic{rank % each * nics // each}")
        assert graph.nodes[data["nic"]]["host"] == data["host"]
    last = max(gpus)
    path, _ = way(graph, 1, last)
    assert [node for node in path if graph.nodes[node]["kind"] == "nic"] == [gpus[1]["nic"], gpus[last]["nic"]]
    assert kinds(graph, path).count("gpu") == 2
    said = [text for text in graph.graph["assumptions"] if text.startswith("nic: ") and "as asked for" in text]
    assert len(said) == (nics != each)


def test_gpus_that_share_a_nic_still_talk_over_nvlink():
    for name in MACHINES:
        for chosen in CHOSEN:
            graph, plain = on(name, f"rail:{chosen}"), on(name, "rail")
            for peer in (1, 2, 3):
                assert way(graph, 0, peer) == way(plain, 0, peer)


def shared(nics):
    """Two GPUs on each of two PCIe switches, and one NIC a switch, or none."""
    one = machine("shared")
    one.graph["network"] = NDR
    for i in range(4):
        one.add_node(f"gpu{i}", kind="gpu", rank=i, flop_rate=1e12)
        one.add_node(f"pcie{i // 2}", kind="pcie")
        cable(one, f"gpu{i}", f"pcie{i // 2}", Link("pcie", 63 * GB, 1 * us))
    one.add_node("cpu0", kind="cpu")
    for k in range(2):
        cable(one, f"pcie{k}", "cpu0", Link("pcie", 63 * GB, 0.5 * us))
        if k < nics:
            one.add_node(f"nic{k}", kind="nic")
            cable(one, f"nic{k}", f"pcie{k}", Link("pcie", 63 * GB, 0.0))
            for i in (2 * k, 2 * k + 1):
                one.nodes[f"gpu{i}"]["nic"] = f"nic{k}"
    return one


def test_a_further_nic_hangs_where_its_gpu_is():
    graph = cluster(shared(2), 2, partial(rail, nics=4))

    for i in range(4):
        assert set(graph.succ[f"node1/nic{i}"]) == {f"node1/pcie{i // 2}", f"rail{i}"}
        assert graph.nodes[f"node1/gpu{i}"]["nic"] == f"node1/nic{i}"
    (said,) = (text for text in graph.graph["assumptions"] if text.startswith("nic: 4 a host as asked for"))
    assert "in place of 2; GPU i of G takes NIC i*n//G of n, and each hangs where its GPUs do" in said


def test_a_gpu_that_reaches_the_shared_nic_through_the_cpu_gets_no_shortcut():
    graph = cluster(shared(2), 2, partial(rail, nics=1))

    assert set(graph.succ["node0/nic0"]) == {"node0/pcie0", "rail0"}
    assert way(graph, 3, 4)[0][:5] == [f"node0/{name}" for name in ("gpu3", "pcie1", "cpu0", "pcie0", "nic0")]


def test_a_faster_nic_is_the_callers_word():
    graph = on("dgx_h100", "rail:gbit=800")

    assert {d["bandwidth"] for _, _, d in graph.edges(data=True) if d["kind"] == "nic"} == {800 * Gbit}
    assert graph.edges["rail0", "spine"]["bandwidth"] == 3 * 800 * Gbit
    assert "nic.bandwidth: as asked for, 800 Gbit/s in place of InfiniBand NDR's" in graph.graph["assumptions"]
    assert "nic.bandwidth" not in graph.graph["sources"]


@pytest.mark.parametrize(
    "cluster, each, fabric",
    [
        *[("dgx_a100", 8, "rail"), ("dgx_h100", 8, "rail"), ("perlmutter", 4, "rail"), ("gb200_nvl72", 72, "rail")],
        *[("dgx_a100", 8, "superpod"), ("dgx_h100", 8, "superpod"), ("perlmutter", 4, "superpod")],
    ],  # a rack fills more than a unit of a superpod: what has no common leaf takes the spine
)
def test_with_pxn_what_goes_to_another_rail_passes_the_gpu_of_that_rail(cluster, each, fabric):
    graph = on(cluster, f"{fabric}:pxn=1", 2)
    gpu = {data["rank"]: node for node, data in graph.nodes(data=True) if data["kind"] == "gpu"}
    for source in (0, 1, each - 1):
        for target in range(each, 2 * each, max(1, each // 8)):
            path, _ = way(graph, source, target)
            inner = [node for node in path[1:-1] if graph.nodes[node]["kind"] == "gpu"]
            nics = [node for node in path if graph.nodes[node]["kind"] == "nic"]
            assert nics[1] == graph.nodes[gpu[target]]["nic"]
            assert nics[0].rpartition("/")[2] == nics[1].rpartition("/")[2]
            assert not any("spine" in node for node in path)
            own = graph.nodes[gpu[source]]["nic"]
            nearby = cluster == "dgx_a100" and source // 2 == target % 8 // 2  # the other NIC of its PCIe switch
            if nics[0].rpartition("/")[2] == own.rpartition("/")[2] or nearby:
                assert inner == []
            else:
                assert len(inner) == 1
                assert graph.nodes[inner[0]]["nic"] == nics[0]
                assert graph.nodes[inner[0]]["host"].partition("/")[0] == path[0].partition("/")[0]


def test_without_pxn_the_spine_is_taken_and_without_a_spine_nvlink():
    assert "spine" in way(on("dgx_h100", "rail"), 0, 9)[0]
    for name in ("dgx_h100", "dgx_a100"):
        path, _ = way(on(name, "rail_only"), 0, 13)
        with_pxn, _ = way(on(name, "rail:pxn=1"), 0, 13)
        assert path == with_pxn


def test_pxn_takes_the_spine_between_leaves_that_no_gpu_joins():
    graph = on("dgx_h100", "superpod:unit=1,pxn=1")
    path, _ = way(graph, 0, 9)
    assert (kinds(graph, path).count("switch"), kinds(graph, path).count("gpu")) == (3, 2)


@pytest.mark.parametrize("cluster", OTHERS)
def test_without_gpudirect_any_nic_sees_the_cpus_memory_only(cluster):
    for fabric in ("rail:gpudirect=0", "rail:gpudirect=0,nics=2"):
        graph = on(cluster, fabric, 2)
        no_cpu = graph.subgraph([node for node, kind in graph.nodes(data="kind") if kind != "cpu"])
        for nic in [node for node, kind in graph.nodes(data="kind") if kind == "nic"]:
            for near in (nx.descendants(no_cpu, nic), nx.ancestors(no_cpu, nic)):
                assert not any(graph.nodes[node]["kind"] == "gpu" for node in near)


@pytest.mark.parametrize("cluster", OTHERS)
@pytest.mark.parametrize("chosen", CHOSEN)
def test_how_nics_hang_changes_nothing_between_gpus_of_a_machine(cluster, chosen):
    graph, plain = on(cluster, f"rail:{chosen}", 2), on(cluster, "rail", 2)
    for peer in range(1, 4):
        assert way(graph, 0, peer)[1] == pytest.approx(way(plain, 0, peer)[1])


@pytest.mark.parametrize("cluster", ["dgx_h100", "dgx_a100", "perlmutter"])
def test_without_gpudirect_a_nic_sees_the_cpus_memory_only(cluster):
    graph, direct = on(cluster, "rail:gpudirect=0"), on(cluster, "rail")
    each = 4 if cluster == "perlmutter" else 8
    no_cpu = graph.subgraph([node for node, kind in graph.nodes(data="kind") if kind != "cpu"])

    for nic in [node for node, kind in graph.nodes(data="kind") if kind == "nic"]:
        assert not any(graph.nodes[node]["kind"] == "gpu" for node in nx.descendants(no_cpu, nic))
        assert not any(graph.nodes[node]["kind"] == "gpu" for node in nx.ancestors(no_cpu, nic))
    path, seconds = way(graph, 0, each)
    assert [kind for kind in kinds(graph, path) if kind in ("cpu", "nic", "switch")] == [
        "cpu",
        "nic",
        "switch",
        "nic",
        "cpu",
    ]
    assert seconds == pytest.approx(way(direct, 0, each)[1] + 2 * 1.0 * us)  # a proxy at both ends
    slowest = [graph.edges[hop]["bandwidth"] for hop in pairwise(path)]
    assert min(slowest) == min(direct.edges[hop]["bandwidth"] for hop in pairwise(way(direct, 0, each)[0]))
    assert any("without GPUDirect" in text for text in graph.graph["assumptions"])


def test_without_gpudirect_gpus_of_a_switch_still_reach_each_other_through_it():
    graph = cluster(shared(2), 2, partial(rail, gpudirect=0))

    assert way(graph, 0, 1)[0] == ["node0/gpu0", "node0/pcie0", "node0/gpu1"]
    assert way(graph, 0, 4)[0][:6] == [
        f"node0/{n}" for n in ("gpu0", "pcie0", "pcie0/up", "cpu0", "pcie0/down", "nic0")
    ]
    assert way(graph, 0, 2)[0] == [
        f"node0/{n}" for n in ("gpu0", "pcie0", "pcie0/up", "cpu0", "pcie1/down", "pcie1", "gpu2")
    ]


def test_without_gpudirect_gpus_may_be_behind_further_switches():
    one = shared(2)
    for i in range(4):  # a bridge of its own above each GPU
        one.remove_edges_from([(f"gpu{i}", f"pcie{i // 2}"), (f"pcie{i // 2}", f"gpu{i}")])
        one.add_node(f"bridge{i}", kind="pcie")
        cable(one, f"gpu{i}", f"bridge{i}", Link("pcie", 63 * GB, 1 * us))
        cable(one, f"bridge{i}", f"pcie{i // 2}", Link("pcie", 63 * GB, 0.5 * us))
    graph = cluster(one, 2, partial(rail, gpudirect=0))

    assert way(graph, 0, 1)[0] == [f"node0/{n}" for n in ("gpu0", "bridge0", "pcie0", "bridge1", "gpu1")]
    assert way(graph, 0, 4)[0][:7] == [
        f"node0/{n}" for n in ("gpu0", "bridge0", "pcie0", "pcie0/up", "cpu0", "pcie0/down", "nic0")
    ]


@pytest.mark.parametrize(
    "cluster, fabric, message",
    [
        ("dgx_h100", "rail:nics=3", r"nics=3: a machine of dgx_h100 has 8 GPUs, which cannot share them equally"),
        ("gb200_nvl72", "rail:nics=3", r"nics=3: a host of gb200_nvl72 has 4 GPUs"),
        ("dgx_h100", "rail:nics=16", r"nics=16: .* has 8 GPUs, which cannot share them equally, or are fewer"),
        ("dgx_h100", "rail:nics=0", "nics of a fabric must be at least 1, got 0"),
        ("dgx_h100", "rail:nics=1.5", "nics of fabric rail must be a whole number"),
        ("dgx_h100", "rail:gbit=0", "gbit of a fabric must be a number above 0"),
        ("dgx_h100", "rail:gbit=fast", "gbit of fabric rail must be a number, got 'fast'"),
        ("dgx_h100", "rail:pxn=2", "pxn of a fabric must be at most 1, got 2"),
        ("dgx_h100", "rail:gpudirect=-1", "gpudirect of fabric rail must be at least 0"),
        (
            "dgx_h100",
            "single:pxn=1",
            r"pxn=1 changes nothing: no switch of dgx_h100\(3\) on single\(pxn=1\) lies between",
        ),
        ("dgx_h100", "dragonfly:pxn=1", "pxn=1 changes nothing"),
    ],
)
def test_a_bad_option_is_one_line(cluster, fabric, message):
    with pytest.raises(ValueError, match=message) as refusal:
        on(cluster, fabric)
    assert "\n" not in str(refusal.value)


OWN = """
import networkx as nx
from topologies.dgx import dgx_h100
from topologies.fabrics import join
from topologies.fabrics.rail import rail
from topologies.links import Link, cable
from topologies.nics import NDR


def alone(nodes: int = 2, fabric=rail) -> nx.DiGraph:
    graph = nx.DiGraph(name="alone", sources={}, assumptions=[])
    for n in range(nodes):
        graph.add_node(f"gpu{n}", kind="gpu", rank=n, flop_rate=1e12)
        graph.add_node(f"nic{n}", kind="nic")
        cable(graph, f"gpu{n}", f"nic{n}", Link("pcie", 1e9, 1e-6))
    join(graph, [[f"nic{n}"] for n in range(nodes)], NDR, fabric)
    return graph


def mesh(graph, nics, network, *, nics_of_mine=1, pxn=3):
    graph.add_node("hub", kind="switch", mine=pxn)
    for machine in nics:
        for nic in machine:
            cable(graph, nic, "hub", network.port())
"""


def test_a_machine_that_joins_its_own_nics_refuses_what_it_does_not_know(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)

    assert len(build(f"{path}:alone", 2, None, "single")[0]) == 5
    with pytest.raises(ValueError, match=r"gbit, pxn of a fabric are for machines joined by cluster\(\): alone joins"):
        build(f"{path}:alone", 2, None, "single:gbit=100,pxn=1")


def test_a_fabric_of_the_callers_may_have_an_option_of_that_name(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    graph = on("dgx_h100", f"{path}:mesh:pxn=7,gbit=100")

    assert graph.nodes["hub"]["mine"] == 7
    assert {d["bandwidth"] for _, _, d in graph.edges(data=True) if d["kind"] == "nic"} == {100 * Gbit}


def test_options_are_taken_out_of_the_fabric():
    chosen, bare = attachment(partial(rail, oversubscription=2.0, nics=4, gpudirect=0))
    assert chosen == Attachment(nics=4, gpudirect=0)
    assert (bare.func, bare.keywords) == (rail, {"oversubscription": 2.0})
    assert attachment(partial(rail, pxn=1)) == (Attachment(pxn=1), rail)
    assert attachment(rail) == (Attachment(), rail)
