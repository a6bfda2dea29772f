"""GPUs carry the published numbers, and say which of them nobody looked up."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.hardware import GPUS, named
from topologies.units import GB, TFLOP

FACTS = Path(__file__).parents[2] / ".." / "shared" / "facts" / "hardware.json"


NAMES_IN_FACTS = {"MI250X (one GCD)": "MI250X-GCD-64", "TPU v4": "TPU-v4", "TPU v5p": "TPU-v5p"}


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_every_number_a_node_carries_has_a_source_or_is_recalled(gpu):
    known = set(gpu.sources()) | {text.partition(":")[0] for text in gpu.assumptions()}
    assert known == {"gpu.flop_rate", "gpu.memory", "gpu.memory_bandwidth"}
    assert gpu.source.startswith("https://") or not (gpu.source or gpu.sources())
    assert all(hasattr(gpu, attribute) for attribute in gpu.recalled)


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_a_gpu_without_bfloat16_says_that_its_peak_is_of_float16(gpu):
    assert gpu.flop_rate == gpu.flop_rates.get("bf16", gpu.flop_rates.get("fp16"))
    if "bf16" not in gpu.flop_rates:
        assert "float16" in gpu.recalled["flop_rate"]


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_a_gpu_has_a_kind_of_link_just_where_it_has_links(gpu):
    assert gpu.link_kind in ("nvlink", "xgmi", "ici", "")
    assert bool(gpu.link_kind) == bool(gpu.links) == bool(gpu.link_bandwidth)
    assert gpu.pcie_bandwidth in {0.0 if gpu.link_kind == "ici" else x * GB for x in (15.75, 31.5, 63)}


@pytest.mark.parametrize(
    ("name", "each_way"),
    [
        ("A100-SXM4-40", 300),
        ("A100-SXM4-80", 300),
        ("H100-SXM5-80", 450),
        ("H800-SXM5-80", 200),
        ("GB200-186", 900),
        ("V100-SXM2-32", 150),
        ("A800-SXM4-80", 200),
        ("B200-SXM-180", 900),
        ("MI300X-192", 448),
        ("MI250X-GCD-64", 400),
        ("TPU-v4", 300),
        ("TPU-v5p", 600),
        ("RTX3090-24", 56.25),
        ("L40S-48", 0),
    ],
)
def test_a_link_is_half_of_the_advertised_total_in_each_direction(name, each_way):
    assert GPUS[name].link_total == each_way * GB


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


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80"),
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40"),
        ("A100-SXM-80GB", "A100-SXM4-80"),
        ("NVIDIA A100-PCIE-40GB", "A100-PCIe-40"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIe-80"),
        ("NVIDIA A800-SXM4-80GB", "A800-SXM4-80"),
        ("Tesla V100-SXM2-32GB", "V100-SXM2-32"),
        ("Tesla V100-SXM2-16GB", "V100-SXM2-16"),
        ("Tesla V100-SXM3-32GB", "V100-SXM2-32"),
        ("Tesla V100-PCIE-16GB", "V100-PCIe-16"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80"),
        ("NVIDIA H100 PCIe", "H100-PCIe-80"),
        ("NVIDIA H100 NVL", "H100-NVL-94"),
        ("NVIDIA H200", "H200-SXM-141"),
        ("NVIDIA GH200 480GB", "GH200-96"),
        ("NVIDIA B200", "B200-SXM-180"),
        ("NVIDIA GB200", "GB200-186"),
        ("NVIDIA L40S", "L40S-48"),
        ("NVIDIA A40", "A40-48"),
        ("NVIDIA A10G", "A10G-24"),
        ("Tesla T4", "T4-16"),
        ("sm90", "H100-SXM5-80"),
        ("NVIDIA RTX A6000", "RTXA6000-48"),
        ("NVIDIA GeForce RTX 4090", "RTX4090-24"),
        ("GeForce RTX 3090", "RTX3090-24"),
        ("AMD Instinct MI300X OAM", "MI300X-192"),
        ("Aqua Vanjaram [Instinct MI300X]", "MI300X-192"),
        ("gfx942:sramecc+:xnack-", "MI300X-192"),
        ("gfx940", "MI300X-192"),
        ("gfx90a", "MI250X-GCD-64"),
        ("AMD INSTINCT MI250 (MCM) OAM AC MBA", "MI250X-GCD-64"),
        ("TPU v4", "TPU-v4"),
        ("h100", "H100-SXM5-80"),
        ("a100", "A100-SXM4-80"),
        ("v100", "V100-SXM2-32"),
        ("mi300x", "MI300X-192"),
        ("4090", "RTX4090-24"),
        ("rtx4090", "RTX4090-24"),
        (" L40s ", "L40S-48"),
    ],
)
def test_what_tools_print_and_people_type_names_a_gpu(text, name):
    assert named(text) is GPUS[name]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gpu",
        "80GB",
        "h1000",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "RTX 4090 D",
        "x" * 10**6,
    ],
)
def test_another_gpu_is_not_taken_for_one_that_is_known(text):
    assert named(text) is None


@given(st.text())
def test_any_text_names_one_gpu_or_none(text):
    assert named(text) in (None, *GPUS.values())


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_a_gpu_answers_to_its_own_name(gpu):
    assert named(gpu.name) is named(gpu.name.lower()) is gpu


@pytest.mark.skipif(not FACTS.exists(), reason="the facts folder is not beside this repository")
def test_the_table_agrees_with_the_collected_facts():
    for fact in json.loads(FACTS.read_text())["gpus"]:
        gpu, link = GPUS[NAMES_IN_FACTS.get(fact["name"], fact["name"])], fact["scaleup"]
        rates = {k: v * TFLOP for k, v in fact["dense_tflops"].items() if v is not None}
        assert dict(gpu.flop_rates) == rates
        assert (gpu.memory, gpu.memory_bandwidth) == (fact["mem_GB"] * GB, fact["mem_GBps"] * GB)
        assert (gpu.sms, gpu.links) == (fact["sm_or_cu"], link["links"])
        assert gpu.link_bandwidth == link["per_link_GBps_per_dir"] * GB
        assert gpu.pcie_bandwidth == (fact["pcie"]["raw_GBps_per_dir"] or 0) * GB
