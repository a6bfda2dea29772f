"""GPUs carry the published numbers, and say which of them nobody looked up."""

import json
from pathlib import Path

import pytest

from topologies.hardware import GPUS
from topologies.units import GB, TFLOP

FACTS = Path(__file__).parents[2] / ".." / "shared" / "facts" / "hardware.json"


def test_the_gpus_of_the_topologies_are_there():
    assert set(GPUS) == {
        "A100-SXM4-40",
        "A100-SXM4-80",
        "H100-SXM5-80",
        "H800-SXM5-80",
        "H200-SXM-141",
        "GB200-186",
    }


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_every_number_a_node_carries_has_a_source_or_is_recalled(gpu):
    known = set(gpu.sources()) | {text.partition(":")[0] for text in gpu.assumptions()}
    assert known == {"gpu.flop_rate", "gpu.memory", "gpu.memory_bandwidth"}
    assert "https://" in gpu.source
    assert all(hasattr(gpu, attribute) for attribute in gpu.recalled)


@pytest.mark.parametrize(
    ("name", "each_way"),
    [
        ("A100-SXM4-40", 300),
        ("A100-SXM4-80", 300),
        ("H100-SXM5-80", 450),
        ("H800-SXM5-80", 200),
        ("GB200-186", 900),
    ],
)
def test_nvlink_is_half_of_the_advertised_total_in_each_direction(name, each_way):
    assert GPUS[name].nvlink_total == each_way * GB


def test_an_h800_is_an_h100_but_for_nvlink_and_fp64():
    h100, h800 = GPUS["H100-SXM5-80"], GPUS["H800-SXM5-80"]
    assert {k: v for k, v in h800.flop_rates.items() if v != h100.flop_rates[k]} == {
        "fp64": TFLOP,
        "fp64_tensor": TFLOP,
    }
    assert (h800.memory, h800.memory_bandwidth, h800.sms) == (h100.memory, h100.memory_bandwidth, h100.sms)


def test_a_gpu_cannot_be_changed_by_accident():
    with pytest.raises(TypeError):
        GPUS["H100-SXM5-80"].flop_rates["bf16"] = 1979 * TFLOP
    with pytest.raises(AttributeError):
        GPUS["H100-SXM5-80"].sms = 144


@pytest.mark.skipif(not FACTS.exists(), reason="the facts folder is not beside this repository")
def test_the_table_agrees_with_the_collected_facts():
    for fact in json.loads(FACTS.read_text())["gpus"]:
        if fact["name"] not in GPUS:
            continue
        gpu, link = GPUS[fact["name"]], fact["scaleup"]
        rates = {k: v * TFLOP for k, v in fact["dense_tflops"].items() if v is not None}
        assert dict(gpu.flop_rates) == rates
        assert (gpu.memory, gpu.memory_bandwidth) == (fact["mem_GB"] * GB, fact["mem_GBps"] * GB)
        assert (gpu.sms, gpu.nvlinks) == (fact["sm_or_cu"], link["links"])
        assert gpu.nvlink_bandwidth == link["per_link_GBps_per_dir"] * GB
        assert gpu.pcie_bandwidth == fact["pcie"]["raw_GBps_per_dir"] * GB
