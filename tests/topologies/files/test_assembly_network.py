"""The listing of a network as a whole cluster and as a fabric, alone and with the machine that stands at its hosts."""

from pathlib import Path

import networkx as nx
import pytest

from topologies.dgx import dgx_a100
from topologies.files import assembly, ibnetdiscover
from topologies.files.assembly import topology
from topologies.files.assembly.network import fabric_of
from topologies.files.facts import FileError
from topologies.laws import check
from topologies.units import GB

DATA = Path(__file__).parents[2] / "data" / "files"
LISTING = str(DATA / "ib_blocks.txt")


def texts(graph, key):
    return "\n".join(graph.graph[key])


def test_alone_it_is_a_machine_of_as_many_gpus_as_cards_at_each_host():
    graph = topology([LISTING])()

    assert [node for node, kind in graph.nodes(data="kind") if kind == "gpu"] == [
        f"{host}/gpu{i}" for host in ("box1", "box2", "box10") for i in (0, 1)
    ]
    assert sorted(node for node, kind in graph.nodes(data="kind") if kind == "switch") == [
        "leaf0",
        "leaf1",
        "spine0",
        "spine1",
    ]
    assert nx.shortest_path(graph, "box1/nic0", "box2/nic0") == ["box1/nic0", "leaf0", "box2/nic0"]
    assert "gpu: one for each HCA of a host; ib_blocks.txt shows no GPUs" in texts(graph, "assumptions")
    assert "gpu: H100-SXM5-80; ib_blocks.txt names none, and its ports are as fast" in texts(graph, "assumptions")
    assert graph.graph["warnings"] == ["assumes H100-SXM5-80: ib_blocks.txt names no GPU; say --gpu"]
    assert "hosts idle: not connected" in texts(graph, "left_out")


def test_several_cables_between_two_switches_add_up_and_one_that_trained_down_stays_visible():
    graph = topology([LISTING], gpu="a100")()

    assert graph.edges["leaf0", "spine1"]["bandwidth"] == 2 * 50 * GB
    assert graph.edges["box10/nic1", "leaf1"]["bandwidth"] == 25 * GB
    assert graph.edges["leaf1", "box10/nic1"]["expected"] == 50 * GB
    assert graph.nodes["box1/gpu0"]["gpu"] == "A100-SXM4-80"
    assert graph.graph["warnings"] == []
    assert graph.graph["sources"]["fabric.bandwidth"] == "ib_blocks.txt (ibnetdiscover)"


def test_a_speed_that_the_listing_says_cannot_be_asked_for():
    with pytest.raises(ValueError, match=r"--nic changes nothing: .*ib_blocks.txt says how fast its cables are"):
        topology([LISTING], nic=25 * GB)


def test_a_machine_file_stands_at_every_host_that_has_its_cards():
    with pytest.raises(FileError, match=r"has hosts of at most 2 cards, topo_h100.txt has 4 NICs"):
        topology([str(DATA / "topo_h100.txt"), LISTING])


def two_cards(tmp_path, names):
    path = tmp_path / "topo.txt"
    rows = ["\t".join(["", "GPU0", "GPU1", *names])]
    for i, name in enumerate(("GPU0", "GPU1", *names)):
        entries = [
            " X " if j == i else "NV4" if i < 2 and j < 2 else "PIX" if i % 2 == j % 2 else "SYS" for j in range(4)
        ]
        rows.append("\t".join([name, *entries]))
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def test_cards_are_the_nics_of_the_same_name_else_in_order_aloud(tmp_path):
    named = topology([two_cards(tmp_path, ("mlx5_1", "mlx5_0")), LISTING])()
    assert named.has_edge("box1/mlx5_0", "leaf0")
    assert named.nodes["box1/gpu0"]["nic"] == "box1/mlx5_1"
    assert "nic: the listing's cards are the NICs of the same name" in texts(named, "assumptions")

    other = topology([two_cards(tmp_path, ("hca_8", "hca_9")), LISTING])()
    assert other.has_edge("box1/hca_8", "leaf0")
    assert "taken to be the machine's NICs in order" in texts(other, "assumptions")


def listing():
    return ibnetdiscover.read(Path(LISTING).read_text(), "ib.txt")


def test_as_a_fabric_it_joins_built_in_machines_at_the_first_hosts_that_have_room(tmp_path):
    machines = topology([two_cards(tmp_path, ("a_0", "a_1"))])
    graph = machines(nodes=2, fabric=fabric_of(listing()))
    check(graph)

    assert graph.has_edge("node1/a_0", "leaf0")
    assert graph.graph["name"] == "topo.txt(2) on ib.txt"
    assert "fabric: machines stand at hosts box1, box2 of ib.txt" in texts(graph, "assumptions")


def test_a_listing_with_too_little_room_is_refused():
    with pytest.raises(ValueError, match="has 0 hosts of at least 8 connected cards, none of more than 2: 2 machines"):
        dgx_a100(2, fabric_of(listing()))


def test_hosts_of_more_cards_than_most_are_named():
    facts = listing()
    graph = nx.DiGraph(left_out=[], notes=[])
    most_one = {f"box{k}": ["a"] for k in range(3)} | {"box9": ["a", "b"]}
    assembly.network._say_who_is_left(graph, facts, {host: most_one["box0"] for host in facts.hosts}, most_one)

    assert graph.graph["notes"] == ["ib.txt: most hosts have 1 card; others: box9 (2)"]


def test_hosts_apart_from_the_others_are_left_out():
    facts = listing()
    cut = tuple(one for one in facts.cables if "leaf0" not in (one.a, one.b))
    graph = assembly._of_network(type(facts)(**{**vars(facts), "cables": cut}), [], None, None)()

    assert sum(kind == "gpu" for _, kind in graph.nodes(data="kind")) == 3
    assert not graph.has_node("leaf0")


def test_a_network_without_hosts_has_no_place_for_a_gpu():
    facts = listing()
    with pytest.raises(FileError, match=r"^ib.txt: shows no host with a card that is connected"):
        assembly._of_network(type(facts)(**{**vars(facts), "cables": ()}), [], None, None)


def test_two_listings_are_two_networks():
    with pytest.raises(ValueError, match="are listings of two networks: give one"):
        topology([LISTING, str(DATA / "ib_ports.txt")])
