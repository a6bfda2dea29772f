"""Topologies are found by listing the folder, or in a file of the caller's."""

import subprocess
import sys

import pytest

import topologies
from topologies.laws import check
from topologies.options import build

MINE = """
from dataclasses import dataclass
from fractions import Fraction
import networkx as nx
import numpy as np

@dataclass
class Part:
    size: int

def pair(nodes: int = 1) -> nx.DiGraph:
    graph = nx.DiGraph()
    for rank in range(2 * Part(nodes).size):
        graph.add_node(rank, kind="gpu", rank=rank, flop_rate=1e12)
        graph.add_edge(rank, (rank + 1) % (2 * nodes), bandwidth=1e9, latency=1e-6)
    return graph

def broken(nodes: int = 1) -> nx.DiGraph:
    return 1 / 0

def number(nodes: int = 1) -> nx.DiGraph:
    return 7

def leaving(nodes: int = 1) -> nx.DiGraph:
    raise SystemExit(0)

def loud(nodes: int = 1) -> nx.DiGraph:
    print("one link")
    graph = pair(nodes)
    nx.set_edge_attributes(graph, {(0, 1): Fraction(10**9), (1, 0): np.float32(1e9)}, "bandwidth")
    return graph

print("hello")
constant = 7
"""


@pytest.fixture
def mine(tmp_path):
    """Return the path of a file of topologies."""
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_the_folder_is_listed():
    assert topologies.names() == [
        "alps_gh200",
        "aws_p4d",
        "aws_p5",
        "azure_nd_a100_v4",
        "azure_nd_h100_v5",
        "dgx1_v100",
        "dgx2",
        "dgx_a100",
        "dgx_h100",
        "frontier",
        "fully_connected",
        "gb200_nvl72",
        "hgx_b200",
        "hgx_h200",
        "hgx_h800",
        "l40s_box",
        "mi300x",
        "pcie_box",
        "perlmutter",
        "ring",
        "rtx4090_box",
        "switch",
        "tpu_v4",
        "tpu_v5p",
        "two_level",
    ]


@pytest.mark.parametrize("name", topologies.names())
def test_every_name_is_found_and_documented(name):
    topology = topologies.find(name)
    assert topology.__name__ == name
    assert topology.__doc__


def test_listing_needs_no_networkx():
    code = "import sys, topologies, topologies.options; topologies.names(); sys.exit('networkx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}).returncode == 0


@pytest.mark.parametrize("name", ["dgx_h10", "dgx-h100", "DGX_H100", "dgx_h1000"])
def test_an_unknown_name_is_answered_with_the_nearest(name):
    with pytest.raises(ValueError, match=rf"^no topology '{name}': expected one of .*; nearest is dgx_h100$"):
        topologies.find(name)


@pytest.mark.parametrize("name", ["", "xyz", "os", "_machines", "check", "rail", "__init__"])
def test_what_is_no_topology_is_not_found(name):
    with pytest.raises(ValueError, match=f"^no topology '{name}': expected one of alps_gh200, "):
        topologies.find(name)


def test_a_name_like_no_other_gets_no_suggestion():
    with pytest.raises(ValueError, match=r"expected one of [^;]*$"):
        topologies.find("xyz")


def test_a_topology_of_the_callers_own_needs_only_the_numbers(mine):
    graph = topologies.find(f"{mine}:pair")(2)
    check(graph)
    assert graph.graph["name"] == f"{mine}:pair(2)"
    assert f"link.latency: as written in {mine}:pair" in graph.graph["assumptions"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("broken", "broken failed on \\(1\\): ZeroDivisionError: division by zero"),
        ("number", "number must return a networkx.DiGraph, got int"),
        ("leaving", "leaving failed on \\(1\\): SystemExit: 0"),
        ("absent", "no function 'absent' in"),
        ("constant", "no function 'constant' in"),
        ("", "names no function: write"),
        ("a.b", "names no function: write"),
    ],
)
def test_a_bad_function_of_the_callers_is_one_line(mine, function, message):
    with pytest.raises(ValueError, match=message) as refusal:
        topologies.find(f"{mine}:{function}")(1)
    assert "\n" not in str(refusal.value)


def test_what_a_callers_file_prints_stays_off_stdout(mine, capsys):
    graph = topologies.find(f"{mine}:loud")(1)

    out, err = capsys.readouterr()
    assert (out, err) == ("", "hello\none link\n")
    assert [type(graph.edges[edge]["bandwidth"]) for edge in ((0, 1), (1, 0))] == [float, float]


@pytest.mark.parametrize("text", ["def f(:", "import nothing_of_the_kind", "raise SystemExit(3)", "\x00"])
def test_a_file_that_does_not_run_is_one_line(tmp_path, text):
    path = tmp_path / "bad.py"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"bad\.py cannot be run: ") as refusal:
        topologies.find(f"{path}:f")
    assert "\n" not in str(refusal.value)


def test_no_file_is_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"^no topology file '.*none\.py'$"):
        topologies.find(f"{tmp_path}/none.py:f")
    with pytest.raises(ValueError, match=r"^no topology file"):
        topologies.find(f"{tmp_path}:f")
    with pytest.raises(ValueError, match=r"none\.py names no function: write .*none\.py:NAME"):
        topologies.find(f"{tmp_path}/none.py")


FABRIC = """
def planes(graph, nics, network, *, count: int = 2, slow: float = 1.0):
    print("joining")
    for machine in nics:
        for i, nic in enumerate(machine):
            graph.add_node(f"plane{i % count}", kind="switch")
            for a, b in ((nic, f"plane{i % count}"), (f"plane{i % count}", nic)):
                graph.add_edge(a, b, bandwidth=network.bandwidth / slow, latency=1e-6)

def nothing(graph, nics, network):
    pass

def broken(graph, nics, network):
    return 1 / 0
"""


def test_a_fabric_of_the_callers_own_joins_our_machines(tmp_path, capsys):
    path = tmp_path / "own.py"
    path.write_text(FABRIC)

    graph, used = build("dgx_h100", 3, fabric=f"{path}:planes:count=4,slow=2")

    assert (graph.graph["name"], used) == ("dgx_h100(3) on planes(count=4, slow=2)", 24)
    assert graph.out_degree("plane3") == 6
    assert f"link.bandwidth: as written in {path}:planes" in graph.graph["assumptions"]
    assert capsys.readouterr() == ("", "joining\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken", r"broken failed on dgx_h100\(3\): ZeroDivisionError: division by zero$"),
        ("nothing", "^G7: every GPU reaches every other: no path from"),
        ("absent", "no function 'absent' in"),
        ("planes:count=0", "count of fabric .*planes must be at least 1, got 0"),
        (
            "planes:size=1",
            "no option for fabric .*planes: 'size': expected one of count, gbit, gpudirect, nics, pxn, slow",
        ),
        ("", "names no function: write"),
    ],
)
def test_a_bad_fabric_of_the_callers_is_one_line(tmp_path, name, message):
    path = tmp_path / "own.py"
    path.write_text(FABRIC)
    with pytest.raises(ValueError, match=message) as refusal:
        build("dgx_h100", 3, fabric=f"{path}:{name}")
    assert "\n" not in str(refusal.value)
    with pytest.raises(ValueError, match=r"no fabric file '.*none\.py'"):
        build("dgx_h100", 3, fabric=f"{tmp_path}/none.py:planes")
