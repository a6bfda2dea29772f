"""Every machine answers compare and simulate, alone and joined to a second, and says what it stands on."""

import pytest

import topologies
from tests.sim.commands import answer
from topologies.hardware import GPUS

JOB = ["--model", "llama3-8b", "--seq", "16K", "--mask", "causal"]
IDEALISED = ("fully_connected", "ring", "switch", "two_level")
MACHINES = [name for name in topologies.names() if name not in IDEALISED and not name.startswith("tpu")]
SIZES = [
    *((name, ["--nodes", str(nodes)]) for name in MACHINES for nodes in (1, 2) if name != "gb200_nvl72" or nodes == 1),
    *((name, ["--gpus", str(gpus)]) for name in ("tpu_v4", "tpu_v5p") for gpus in (8, 64)),
]


@pytest.mark.parametrize(("name", "size"), SIZES)
def test_every_machine_is_simulated_and_no_faster_than_its_bound(name, size, capsys):
    found = answer(capsys, "simulate", "ring", "--cluster", name, *size, *JOB)
    result = found["results"][0]
    assert result["time_s"] >= found["bound"]["seconds"] > 0
    assert found["cluster"]["name"].startswith(f"{name}({size[1]})")


@pytest.mark.parametrize("name", ["dgx1_v100", "frontier", "pcie_box", "tpu_v4"])
def test_machines_of_each_new_kind_of_link_are_compared(name, capsys):
    found = answer(capsys, "compare", "--cluster", name, *JOB, *(["--gpus", "8"] if name == "tpu_v4" else []))
    assert len(found["results"]) > 5
    assert all(result["time_s"] >= found["bound"]["seconds"] for result in found["results"])


@pytest.mark.parametrize("name", ["dgx1_v100", "frontier", "mi300x", "rtx4090_box", "l40s_box", "tpu_v5p"])
def test_a_gpu_without_a_published_kernel_takes_a_plain_share_of_its_peak_and_says_so(name, capsys):
    size = ["--gpus", "8"]
    found = answer(capsys, "simulate", "ring", "--cluster", name, *size, *JOB)
    told = "\n".join(found["assumptions"])
    assert "no published kernel speed for bfloat16" in told
    assert "plain_share" in told
    plainer = answer(capsys, "simulate", "ring", "--cluster", name, *size, *JOB, "--assume", "plain_share=0.25")
    assert plainer["results"][0]["time_s"] > found["results"][0]["time_s"]


def test_a_v100_says_that_it_has_no_bfloat16(capsys):
    def told(dtype):
        found = answer(capsys, "simulate", "ring", "--cluster", "dgx1_v100", *JOB, "--dtype", dtype)
        return "\n".join(found["assumptions"])

    assert "nor a bf16 peak: it is taken to be the GPU's flop_rate" in told("bfloat16")
    assert "peak: it is taken" not in told("float16")
    assert GPUS["V100-SXM2-32"].flop_rate == GPUS["V100-SXM2-32"].flop_rates["fp16"]
