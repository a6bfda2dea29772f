"""--cluster, --nodes and --gpus name one graph and how much of it to use."""

import click
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.options import build, cluster_options


@pytest.mark.parametrize(
    ("cluster", "nodes", "gpus", "name", "used"),
    [
        ("dgx_h100", None, None, "dgx_h100(1)", 8),
        ("dgx_h100", 8, None, "dgx_h100(8)", 64),
        ("dgx_h100", None, 64, "dgx_h100(8)", 64),
        ("dgx_h100", 8, 64, "dgx_h100(8)", 64),
        ("dgx_h100", None, 3, "dgx_h100(1)", 3),
        ("dgx_h100", 1, 3, "dgx_h100(1)", 3),
        ("perlmutter", None, 12, "perlmutter(3) on dragonfly", 12),
        ("gb200_nvl72", None, 64, "gb200_nvl72(1)", 64),
        ("gb200_nvl72", 2, None, "gb200_nvl72(2)", 144),
        ("two_level", 2, None, "two_level(2, 8)", 16),
        ("ring", None, None, "ring(8)", 8),
        ("switch", None, 5, "switch(5)", 5),
    ],
)
def test_sizes(cluster, nodes, gpus, name, used):
    graph, count = build(cluster, nodes, gpus)
    assert (graph.graph["name"], count) == (name, used)


@pytest.mark.parametrize(
    ("cluster", "nodes", "gpus", "message"),
    [
        (
            "dgx_h100",
            None,
            12,
            "gpus 12 is no multiple of the 8 of one node of dgx_h100: nearest are 8 and 16",
        ),
        ("gb200_nvl72", None, 100, "gpus 100 .* one rack of gb200_nvl72: nearest are 72 and 144"),
        ("dgx_h100", 2, 12, "gpus 12: nodes 2 of dgx_h100 are 16 GPUs; give one of the two"),
        ("dgx_h100", 1, 16, "gpus 16: nodes 1 of dgx_h100 are 8 GPUs"),
        ("dgx_h100", 2, 4, "gpus 4: nodes 2 of dgx_h100 are 16 GPUs"),
        ("ring", 2, None, "nodes 2: ring has no machines"),
        ("dgx_h100", 0, None, "nodes must be at least 1, got 0"),
        ("dgx_h100", None, -8, "gpus must be at least 1, got -8"),
        ("dgx_h100", 10**12, None, "nodes must be at most"),
        ("dgx_h100", 2**17, None, "a cluster has at most 131072 GPUs"),
        ("fully_connected", None, 100_000, "at most 1024"),
        ("dgx_h10", None, None, "nearest is dgx_h100"),
    ],
)
def test_bad_sizes_are_refused_in_one_line(cluster, nodes, gpus, message):
    with pytest.raises(ValueError, match=message) as refusal:
        build(cluster, nodes, gpus)
    assert "\n" not in str(refusal.value)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["dgx_a100", "perlmutter"]), st.integers(1, 60))
def test_gpus_are_given_exactly_or_not_at_all(cluster, gpus):
    each = {"dgx_a100": 8, "perlmutter": 4}[cluster]
    if gpus > each and gpus % each:
        with pytest.raises(ValueError, match="nearest are"):
            build(cluster, gpus=gpus)
        return
    graph, used = build(cluster, gpus=gpus)
    total = sum(kind == "gpu" for _, kind in graph.nodes(data="kind"))
    assert (used, total) == (gpus, max(each, gpus))


@pytest.mark.parametrize(
    ("fabric", "name"),
    [
        ("rail", "dgx_h100(4)"),
        ("rail:oversubscription=2", "dgx_h100(4) on rail(oversubscription=2)"),
        ("single", "dgx_h100(4) on single"),
        (" fat_tree: leaf = 8, oversubscription=2 ", "dgx_h100(4) on fat_tree(leaf=8, oversubscription=2)"),
    ],
)
def test_a_fabric_with_options_names_the_cluster(fabric, name):
    assert build("dgx_h100", 4, fabric=fabric)[0].graph["name"] == name


@pytest.mark.parametrize(
    ("cluster", "nodes", "fabric", "message"),
    [
        (
            "dgx_h100",
            4,
            "fattree",
            "no fabric 'fattree': expected one of dragonfly, fat_tree, rail, .*; nearest is fat_tree$",
        ),
        ("dgx_h100", 4, "", "no fabric ''"),
        ("dgx_h100", 4, "x" * 500, "no fabric 'x{57}...'"),
        ("dgx_h100", 4, "fat_tree:leafs=8", "no option for fabric fat_tree: 'leafs': .*; nearest is leaf$"),
        (
            "dgx_h100",
            4,
            "single:leaf=8",
            "no option for fabric single: 'leaf': expected one of gbit, gpudirect, nics, pxn$",
        ),
        ("dgx_h100", 4, "fat_tree:", "fabric fat_tree takes KEY=VALUE, separated by commas: got ''"),
        ("dgx_h100", 4, "fat_tree:leaf", "takes KEY=VALUE, separated by commas: got 'leaf'"),
        ("dgx_h100", 4, "fat_tree:leaf=8,leaf=9", "fabric fat_tree has leaf twice"),
        (
            "dgx_h100",
            4,
            "fat_tree:leaf=1.5",
            "leaf of fabric fat_tree must be a whole number in plain digits, got '1.5'",
        ),
        ("dgx_h100", 4, "fat_tree:leaf=0", "leaf of fabric fat_tree must be at least 1, got 0"),
        ("dgx_h100", 4, "fat_tree:leaf=9999999", "leaf of fabric fat_tree must be at most 1000000"),
        (
            "dgx_h100",
            4,
            "fat_tree:oversubscription=nan",
            "oversubscription of fabric fat_tree must be a number, got 'nan'",
        ),
        (
            "dgx_h100",
            4,
            "fat_tree:oversubscription=0",
            "oversubscription of fat_tree must be a number above 0 .*, got 0.0",
        ),
        ("dgx_h100", 4, "rail:oversubscription=-1", "oversubscription of rail must be a number above 0 .*, got -1.0"),
        (
            "dgx_h100",
            4,
            "fat_tree:oversubscription=3",
            r"leaf=32 over oversubscription=3, 10.67 uplinks: .* how many spines",
        ),
        ("dgx_h100", 4, "fat_tree:leaf=48", "a leaf of fat_tree has 48 NICs and 48 spines: a switch has ports=64"),
        ("dgx_h100", 4, "fat_tree:tiers=4", "tiers of fat_tree must be at most 3, got 4"),
        ("dgx_h100", 8, "fat_tree:ports=4,tiers=2", "tiers=2, ports=4, leaf=2 has room for 8 NICs: here are 64"),
        ("dgx_h100", 8, "fat_tree:ports=4", "tiers=3, ports=4, leaf=2 has room for 16 NICs: here are 64"),
        ("dgx_h100", 1, "single", r"--fabric single changes nothing: dgx_h100\(1\) has nothing to join"),
        ("gb200_nvl72", 1, "single", r"changes nothing: gb200_nvl72\(1\) has nothing to join"),
        ("two_level", 2, "single", "--fabric single: two_level takes no fabric"),
    ],
)
def test_a_bad_fabric_is_refused_in_one_line(cluster, nodes, fabric, message):
    with pytest.raises(ValueError, match=message) as refusal:
        build(cluster, nodes, fabric=fabric)
    assert "\n" not in str(refusal.value)


OWN = """
import networkx as nx

from topologies.fabrics import join
from topologies.fabrics.rail import rail
from topologies.nics import NDR

def fixed() -> nx.DiGraph:
    graph = nx.DiGraph(name="fixed")
    for rank in range(2):
        graph.add_node(rank, kind="gpu", rank=rank, flop_rate=1e12)
        graph.add_edge(rank, 1 - rank, bandwidth=RATE, latency=0)
    return graph

def greedy(nodes: int, colour: str) -> nx.DiGraph:
    return fixed()

def empty(nodes: int = 1) -> nx.DiGraph:
    return nx.DiGraph()

def boxes(nodes: int = 1, fabric=rail) -> nx.DiGraph:
    graph = nx.DiGraph(name=f"boxes({nodes})", sources={}, assumptions=[])
    for rank in range(nodes):
        graph.add_node(f"gpu{rank}", kind="gpu", rank=rank, flop_rate=1e12)
        graph.add_node(f"nic{rank}", kind="nic")
        graph.add_edge(f"gpu{rank}", f"nic{rank}", bandwidth=1e9, latency=0)
        graph.add_edge(f"nic{rank}", f"gpu{rank}", bandwidth=1e9, latency=0)
    join(graph, [[f"nic{rank}"] for rank in range(nodes)], NDR, fabric)
    return graph
"""


def test_machines_of_the_callers_take_a_fabric_too(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN.replace("RATE", "1e9"))
    assert build(f"{path}:boxes", 8, fabric="fat_tree:leaf=4")[0].graph["name"] == "boxes(8) on fat_tree(leaf=4)"
    with pytest.raises(ValueError, match=r"boxes failed on .*tiers=3, ports=4, leaf=2 has room for 16 NICs"):
        build(f"{path}:boxes", 100, fabric="fat_tree:ports=4")
    with pytest.raises(ValueError, match="fixed takes no fabric"):
        build(f"{path}:fixed", fabric="single")


def test_a_graph_of_one_size_in_a_file_of_the_callers(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN.replace("RATE", "1e9"))
    assert build(f"{path}:fixed")[1] == build(f"{path}:fixed", 1, 2)[1] == 2
    assert build(f"{path}:fixed", gpus=1)[1] == 1
    with pytest.raises(ValueError, match="is of one size, 2 GPUs: it cannot be had 3 times"):
        build(f"{path}:fixed", nodes=3)
    with pytest.raises(ValueError, match="is no topology: its argument colour has no default"):
        build(f"{path}:greedy")
    with pytest.raises(ValueError, match="has no GPU"):
        build(f"{path}:empty")


def test_a_graph_of_the_callers_must_keep_the_laws(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN.replace("RATE", "0"))
    with pytest.raises(ValueError, match=r"^G4: .*0 -> 1 has 0.0$"):
        build(f"{path}:fixed")


@click.command()
@cluster_options
def command(named):
    """Print the arguments."""
    click.echo(f"{named.cluster} {named.nodes} {named.gpus} {named.fabric}")


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ([], "dgx_h100 None None None"),
        (["--cluster", "ring", "--gpus", "64"], "ring None 64 None"),
        (["--nodes", "2"], "dgx_h100 2 None None"),
        (["--fabric", "single"], "dgx_h100 None None single"),
    ],
)
def test_the_options_reach_the_command(arguments, printed):
    result = CliRunner().invoke(command, arguments)
    assert (result.exit_code, result.output.strip()) == (0, printed)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "1K", "nan", "", "many", "1" * 30])
def test_a_bad_size_on_the_command_line_is_status_2(text):
    result = CliRunner().invoke(command, ["--nodes", text])
    assert result.exit_code == 2
    assert "nodes must be" in result.output
