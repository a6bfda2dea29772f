"""`ringloom topology check`: what it prints, its JSON and its exit status."""

import json

import pytest

from sim.commands import run
from tests.sim.commands import answer, shown

CHECK = ("topology", "check")
FAULTY = """
from topologies.dgx import dgx_a100

def slow(nodes=1):
    graph = dgx_a100(nodes)
    for link in (("node0/pcie1", "node0/nic3"), ("node0/nic3", "node0/pcie1")):
        graph.edges[link]["bandwidth"] /= 4
    return graph

def apart(nodes=1):
    graph = dgx_a100(2)
    graph.remove_edges_from(list(graph.in_edges("node1/gpu3")))
    return graph
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FAULTY, encoding="utf-8")
    return str(path)


def test_a_sound_cluster_has_its_figures_and_nothing_wrong(capsys):
    text = shown(capsys, *CHECK, "dgx_a100", "--nodes", "2")

    assert "all-reduce busbw   194  8 rings; all-gather and reduce-scatter the same" in text
    assert "nothing wrong found" in text
    assert "(NVLS, SHARP) goes beyond them and is not modelled" in text


def test_figures_that_other_routes_or_rings_would_beat_say_so(capsys):
    torus, grid = (shown(capsys, *CHECK, "tpu_v4", "--gpus", chips) for chips in ("64", "32"))
    dragonfly = shown(capsys, *CHECK, "frontier", "--nodes", "2", "--fabric", "dragonfly")
    sound = shown(capsys, *CHECK, "dgx2")

    assert "rings: in the order of ranks; rings from neighbour to neighbour" in grid
    assert "rings, with detours; all-gather" in dragonfly
    assert "routes: adaptive, by flow: those of a collective take detours where cables are full" in dragonfly
    assert "nothing wrong found, but what is by design:" in dragonfly
    assert "order of ranks" not in sound + dragonfly + torus
    assert "by design" not in sound


def test_a_fault_is_named_with_its_place_and_its_cost(own, capsys):
    text = shown(capsys, *CHECK, f"{own}:slow", "--nodes", "2")

    assert "pcie trained down" in text
    assert "node0/nic3 -> node0/pcie1" in " ".join(text.split())
    assert "7.88 GB/s instead of 31.5" in text
    assert "54.8 -> 194" in text
    assert "6.9 -> 24.2" in text
    assert "nothing wrong found" not in text


def test_strict_makes_a_fault_status_1_and_leaves_what_is_by_design(own, capsys):
    assert run([*CHECK, f"{own}:slow", "--nodes", "2", "--strict"]) == 1
    assert run([*CHECK, f"{own}:slow", "--nodes", "2"]) == 0
    assert run([*CHECK, "dgx_h100", "--nodes", "2", "--fabric", "rail:oversubscription=2", "--strict"]) == 0
    assert "fabric is oversubscribed (by" in capsys.readouterr().out


def test_a_graph_that_breaks_a_law_is_one_line_and_status_2(own, capsys):
    assert run([*CHECK, f"{own}:apart"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "ringloom: G7: every GPU reaches every other: no path from node0/gpu0 to node1/gpu3\n"


def test_json_has_all_places_and_all_figures_in_bytes(own, capsys):
    found = answer(capsys, *CHECK, f"{own}:slow", "--nodes", "2")

    assert found["schema"] == "ringloom.topology-check/1"
    assert found["cluster"]["gpus"] == 16
    assert any(text.startswith("link shares: ") for text in found["assumptions"])
    (one,) = found["results"]
    assert sorted(one["where"]) == ["node0/nic3 -> node0/pcie1", "node0/pcie1 -> node0/nic3"]
    assert one["all_reduce"] == {"now": pytest.approx(54.81e9), "mended": pytest.approx(194e9)}
    assert one["send_recv"]["mended"] == pytest.approx(24.25e9)
    assert found["bandwidths"]["all_reduce"] == one["all_reduce"]["now"]
    assert sum(one["pairs"] for one in found["bandwidths"]["send_recv"]) == 16 * 15


def test_json_is_strict_json_for_one_gpu_too(capsys):
    found = answer(capsys, *CHECK, "switch", "--gpus", "1")

    assert found["bandwidths"]["all_reduce"] is None
    json.dumps(found, allow_nan=False)


def test_all_names_every_place(capsys):
    few = shown(capsys, *CHECK, "dgx_h100", "--nodes", "4", "--fabric", "rail:oversubscription=4")
    every = shown(capsys, *CHECK, "dgx_h100", "--nodes", "4", "--fabric", "rail:oversubscription=4", "--all")

    assert "and 5 more" in few
    assert "rail7" not in few
    assert "rail7" in every


def test_what_gains_nothing_once_mended_says_so(capsys):
    text = " ".join(shown(capsys, *CHECK, "dgx_h100", "--nodes", "2", "--fabric", "rail:gpudirect=0").split())

    assert "no bandwidth" in text
    assert "->" not in text.partition("GB/s now")[0]


def status(tmp_path, up, down):
    """One V100 with so many links up and down."""
    links = [*["25.781 GB/s"] * up, *["<inactive>"] * down]
    path = tmp_path / "nv.txt"
    path.write_text(
        "GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-0)\n" + "".join(f"\t Link {i}: {s}\n" for i, s in enumerate(links)),
        encoding="utf-8",
    )
    return str(path)


def test_one_gpu_has_faults_that_cost_nothing_between_gpus(tmp_path, capsys):
    found = answer(capsys, *CHECK, status(tmp_path, 4, 2))["results"]

    assert [one["finding"] for one in found] == ["nvlink trained down", "NVLinks missing"]
    assert {value for one in found for value in one["all_reduce"].values()} == {None}
    assert "4 of the 6 links of V100-SXM2-32" in shown(capsys, *CHECK, status(tmp_path, 4, 2))


def test_links_of_a_gpu_that_was_guessed_are_not_missed(tmp_path, capsys):
    # Two NVLinks are taken for the bridge of an RTX 3090, which has four; another card has two.
    path = tmp_path / "topo.txt"
    path.write_text("\tGPU0\tGPU1\nGPU0\t X \tNV2\nGPU1\tNV2\t X \n", encoding="utf-8")

    assert "nothing wrong found" in shown(capsys, *CHECK, str(path))
    assert "2 of the 4 links of RTX3090-24" in shown(capsys, *CHECK, str(path), "--gpu", "rtx3090")
