"""Costs told from logs: a cluster that is calibrated takes what was measured, and says what that rests on."""

import json
import math
import os
import re
from pathlib import Path

import numpy as np
import pytest

from sim.bandwidths import Bandwidths
from sim.calibration.alone import Alone
from sim.calibration.calibrate import NIC_LATENCY, calibrate
from sim.calibration.checked import again, checked
from sim.calibration.fit import fit
from sim.calibration.runs import Run, runs_of
from sim.cluster_costs import with_costs_of
from sim.commands import run
from sim.costs import Costs
from sim.simulate import Site
from tests.sim.commands import answer, shown
from topologies.basic import switch
from topologies.dgx import dgx_a100, dgx_h100
from topologies.files.graphs import write
from topologies.logs import read_all
from topologies.logs.records import factor
from topologies.options import build
from topologies.units import GB, MiB, us

DATA = Path(__file__).parents[1] / "data" / "logs"
WHOLE = str(DATA / "nccl_whole.txt")
PROBLEM = ["--model", "llama3-8b", "--seq", "16K", "--algorithms", "all_gather_kv"]


def calibrated(graph, *names):
    gpus = sum(kind == "gpu" for _, kind in graph.nodes(data="kind"))
    logs = read_all([str(DATA / name) for name in names])
    return calibrate([one for log in logs for one in runs_of(log, gpus, [], 8)], graph, Costs())


def number(found, name):
    return next(one.value for one in found.numbers if one.name == name)


def test_a_curve_is_found_again_and_has_no_negative_term():
    sizes = 2 ** np.arange(3, 34, 2)
    found = fit({int(n): 11e-6 + 4e-9 * math.sqrt(n) + n / 200e9 for n in sizes})
    assert (found.alpha, found.gamma, found.rate) == (
        pytest.approx(11e-6),
        pytest.approx(4e-9),
        pytest.approx(200e9),
    )
    assert found.worst < 1e-9
    bent = fit({int(n): max(1e-3 - 1e-9 * n, 1e-5) for n in sizes[:8]})
    assert min(bent.alpha, bent.gamma, 1 / bent.rate) >= 0
    assert fit({8: 1.0, 16: 1.0, 32: 1.0}) is None


def test_a_lone_ring_all_reduce_takes_its_rounds():
    # launch | 2 (p - 1) rounds: latency, a p-th of the bytes | after each of the first p - 1 the reduction
    graph, nbytes = dgx_h100(1), 1 << 30
    costs = Costs(reduce_nbytes=0.0)
    network = Site(graph, costs).network
    hop = float(network.latency[network.route([0], [1])].sum())

    seconds = Alone(graph, costs).seconds("all_reduce", nbytes)

    rate = Bandwidths(graph, costs).all_reduce
    assert seconds == pytest.approx(costs.comm_launch + 14 * hop + factor("all_reduce", 8) * nbytes / rate, rel=1e-6)


def test_what_limits_one_machine_is_its_nvlink_and_it_then_takes_what_was_measured():
    found = calibrated(dgx_h100(1), "nccl_whole.txt")
    (one,) = found.told

    assert {each.name for each in found.numbers} == {"nvlink", "comm_launch", "reduce_nbytes"}
    assert one.curve.rms < 0.01
    assert again(found, one) < 0.01
    for row in checked(found, one, Costs(), [one.run.sizes[0], *one.run.large]):
        assert row.after == pytest.approx(row.measured, rel=0.01)
        assert abs(row.before / row.measured - 1) > 0.1


def test_what_limits_two_machines_is_the_nic_and_small_messages_tell_its_latency():
    found = calibrated(dgx_h100(2), "nccl_srun.txt")

    assert {each.name for each in found.numbers} == {"nic", NIC_LATENCY, "reduce_nbytes"}
    assert Bandwidths(found.graph).all_reduce == pytest.approx(found.told[0].run.reached, rel=2e-3)
    assert {data["latency"] for _, _, data in found.graph.edges(data=True) if data["kind"] == "nic"} == {
        number(found, NIC_LATENCY)
    }
    small = found.told[0].run.sizes[0]
    (row,) = checked(found, found.told[0], Costs(), [small])
    assert row.after == pytest.approx(row.measured, rel=0.01)
    assert [text for text in found.graph.graph["assumptions"] if text.startswith("nic.latency: ")] == [
        f"nic.latency: {number(found, NIC_LATENCY) / us:.2f} us a link; measured: all_reduce on 16 ranks of 2 hosts, "
        "nccl_srun.txt lines 13-16 (8.00 B-512 B)"
    ]


def test_what_switches_reduced_and_what_links_cannot_carry_tell_no_share():
    by_gpus = calibrated(dgx_h100(1), "table_gpus.md")
    assert number(by_gpus, "nvlink") == pytest.approx(353.6 / 450, rel=0.01)  # NVLS off, and the ring of four
    assert any("switches reduced it" in remark for remark in by_gpus.remarks)

    too_slow = calibrated(dgx_a100(1), "nccl_whole.txt")  # the log is an H100's
    assert any("more than all links carry" in remark for remark in too_slow.remarks)
    assert {each.name for each in too_slow.numbers} == {"comm_launch"}


def test_several_runs_of_one_number_give_the_middle_and_say_when_they_disagree():
    graph = dgx_h100(1)
    runs = [Run("all_reduce", 8, 1, "ring", None, False, f"{k}.txt", {64 * MiB: s}, {64 * MiB: 1})
            for k, s in enumerate((400 * us, 420 * us, 600 * us))]  # fmt: skip
    found = calibrate(runs, graph, Costs())

    assert number(found, "nvlink") == pytest.approx(1.75 * 64 * MiB / (420 * us) / (450 * GB), rel=2e-3)
    assert any(remark.startswith("nvlink: runs disagree") for remark in found.remarks)


def test_what_is_measured_stands_in_for_defaults_and_what_is_said_for_both(tmp_path, capsys):
    path = str(tmp_path / "my.json")
    text = shown(capsys, "calibrate", "--from", WHOLE, "--cluster", "dgx_h100", "-o", path)
    value = json.loads(Path(path).read_text())["costs"]["nvlink"]["value"]
    found = answer(capsys, "compare", "--cluster", path, *PROBLEM)
    said = answer(capsys, "compare", "--cluster", path, "--assume", "nvlink=0.5", *PROBLEM)
    typed = answer(
        capsys,
        "compare",
        "--cluster",
        "dgx_h100",
        "--assume",
        f"nvlink={value},comm_launch={number_of(path)}s",
        *PROBLEM,
    )

    assert f"written to {path}: use it as --cluster {path}" in text
    source = "measured: all_reduce on 8 ranks of one host, by rings, nccl_whole.txt line 31 (8.00 GiB); default 82%"
    assert f"nvlink: {100 * value:.4g}% of its bandwidth reached ({source})" in found["assumptions"]
    assert any(line.startswith("nvlink: 50% of its bandwidth reached (as you said") for line in said["assumptions"])
    assert found["results"][0]["time_s"] == pytest.approx(typed["results"][0]["time_s"], rel=1e-9)
    assert said["results"][0]["time_s"] > found["results"][0]["time_s"]


def number_of(path):
    return json.loads(Path(path).read_text())["costs"]["comm_launch"]["value"]


def test_without_a_file_the_line_to_type_gives_the_same(tmp_path, capsys):
    path = str(tmp_path / "my.yaml")
    shown(capsys, "calibrate", "--from", WHOLE, "--cluster", "dgx_h100", "-o", path)
    text = shown(capsys, "calibrate", "--from", WHOLE, "--cluster", "dgx_h100")
    line = re.search(r"^use it as (--assume) (\S+)$", text, re.M)
    first = answer(capsys, "compare", "--cluster", path, *PROBLEM)
    second = answer(capsys, "compare", "--cluster", "dgx_h100", *line.groups(), *PROBLEM)

    assert first["results"][0]["time_s"] == second["results"][0]["time_s"]


@pytest.mark.parametrize("suffix", ["json", "yaml", "graphml"])
def test_a_cluster_file_keeps_what_was_measured(suffix, tmp_path):
    found = calibrated(dgx_h100(2), "nccl_srun.txt")
    path = str(tmp_path / f"my.{suffix}")
    write(found.graph, path)

    assert with_costs_of(Costs(), build(path)[0]) == with_costs_of(Costs(), found.graph)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([], "must be a mapping of numbers by name, got []"),
        ({"nvlnik": {"value": 1, "source": "x"}}, "no assumption 'nvlnik'"),
        ({"nvlink": 0.5}, "nvlink must be a mapping of value and source, got 0.5"),
        ({"nvlink": {"value": 1.4, "source": "x"}}, "nvlink must be 1e-06 to 1, got 1.4"),
        ({"comm_launch": {"value": float("nan"), "source": "x"}}, "comm_launch must be a number, got nan"),
        ({"comm_launch": {"value": "8us", "source": "x"}}, "comm_launch must be a number, got '8us'"),
    ],
)
def test_costs_that_cannot_be_are_refused(costs, message):
    graph = dgx_h100(1)
    graph.graph["costs"] = costs

    with pytest.raises(ValueError, match=re.escape(message)):
        Site(graph)


def test_an_idealised_cluster_is_refused_and_so_is_one_that_is_too_small(capsys):
    with pytest.raises(ValueError, match="is idealised: its links are taken at their word"):
        calibrated(switch(8), "nccl_whole.txt")

    for arguments, message in (
        (["--from", WHOLE, "--cluster", "dgx_h100", "--gpus", "4", "-o", "my.txt"], "the suffix says the format"),
        (["--from", str(DATA / "nccl_srun.txt"), "--cluster", "dgx_h100"], "dgx_h100(1) has 8 GPUs; say --nodes"),
        (["--from", str(DATA / "msccl.xml")], "which holds no timings"),
        (["--from", "none.txt"], "none.txt: cannot be read"),
        (["--cluster", "dgx_h100"], "Missing option '--from'"),
    ):
        assert run(["calibrate", *arguments]) == 2
        err = capsys.readouterr().err
        assert message in err
        assert len(err.splitlines()) == 1


# Published runs on machines that are known, in a folder beside the checkout that is not part of it.
CASES = Path(os.environ.get("RINGLOOM_CASES", Path(__file__).parents[3] / "shared" / "cases")) / "nccl_tests"
KNOWN = {  # number of the case -> cluster, machines, fabric
    "03": ("gb200_nvl72", 2, None),
    "05": ("aws_p4d", 2, None),
    "08": ("aws_p5", 1, None),
    "10": ("dgx_h100", 2, "rail:nics=4,gbit=200"),
    "11": ("dgx_h100", 2, None),
    "12": ("hgx_b200", 2, None),
    "15": ("mi300x", 2, None),
    "16": ("alps_gh200", 2, None),
    "21": ("dgx_h100", 2, "rail:nics=4,gbit=400"),
    "25": ("dgx_a100", 1, None),
    "26": ("dgx_a100", 1, None),
    "27": ("rtx4090_box", 1, None),
    "28": ("rtx4090_box", 1, None),
    "29": ("l40s_box", 2, None),
    "30": ("l40s_box", 2, None),
    "32": ("dgx_h100", 1, None),
    "33": ("dgx_h100", 2, None),
    "34": ("dgx_h100", 2, None),
    "37": ("mi300x", 2, None),
}
BEYOND = {"08", "11", "12", "28", "32"}  # reduced in switches, or of another machine: no share would do


@pytest.mark.parametrize("case", KNOWN)
def test_published_runs_are_simulated_as_measured_once_calibrated(case):
    if not CASES.is_dir():
        pytest.skip(f"no folder of cases at {CASES}")
    cluster, nodes, fabric = KNOWN[case]
    (path,) = CASES.glob(f"{case}-*")
    graph, gpus = build(cluster, nodes, None, fabric)
    (log,) = read_all([str(path)])
    found = calibrate(runs_of(log, gpus, [], gpus // nodes), graph, Costs())
    (one,) = found.told

    assert bool(one.reached.why_not) == (case in BEYOND)
    if case not in BEYOND:
        (row,) = checked(found, one, Costs(), one.run.sizes[-1:])
        assert row.after == pytest.approx(row.measured, rel=0.02)
        assert again(found, one) <= max(0.12, one.curve.worst)
