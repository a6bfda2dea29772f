"""Every NVLink port has its rate, or is down; a listing that is not whole is refused."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.files.facts import FileError
from topologies.files.nvlink_status import looks_like, read
from topologies.units import GB

DATA = Path(__file__).parents[2] / "data" / "files"


def test_an_inactive_link_is_a_port_of_rate_zero():
    facts = read((DATA / "nvlink_status.txt").read_text(), "f")

    assert [gpu.ports for gpu in facts.gpus] == [(25.781 * GB, 0.0), (25.781 * GB, 25.781 * GB)]
    assert {gpu.model for gpu in facts.gpus} == {"Tesla V100-SXM2-16GB"}
    assert (facts.format, facts.link_bandwidth) == ("nvidia-smi nvlink -s", 25.781 * GB)
    assert (facts.links, facts.near) == ({}, {})
    assert facts.notes == ("inactive: 1 of 2 links of GPU0",)


def test_the_gpus_of_nvidia_smi_l_have_names_and_no_ports():
    facts = read(
        "GPU 0: NVIDIA L40S (UUID: GPU-a)\n  MIG 1g.5gb Device 0: (UUID: MIG-b)\nGPU 2: NVIDIA L40S (UUID: GPU-c)", "f"
    )

    assert [(gpu.index, gpu.model, gpu.ports) for gpu in facts.gpus] == [
        (0, "NVIDIA L40S", None),
        (2, "NVIDIA L40S", None),
    ]
    assert facts.format == "nvidia-smi -L"
    assert facts.notes == (
        "no link is listed for GPU0, GPU2: its ports are not said",
        "GPU1 not shown",
        "GPUs are split into MIG instances: taken whole",
    )


def test_names_before_the_links_are_the_same_gpus():
    names = "GPU 0: NVIDIA A100 (UUID: GPU-a)\n"

    assert read(f"{names}{names}  Link 0: 25 GB/s", "f").gpus[0].ports == (25 * GB,)
    assert read(f"{names}  Link 0: 25 GB/s\n\n{names}", "f").gpus[0].ports == (25 * GB,)


def test_all_links_may_be_down():
    down = "NVML: Unable to retrieve NVLink information as all links are inActive"

    facts = read(f"GPU 0: NVIDIA A100 (UUID: GPU-a)\n{down}\nGPU 1: NVIDIA A100 (UUID: GPU-b)\n  Link 0: 25 GB/s", "f")

    assert [gpu.ports for gpu in facts.gpus] == [(), (25 * GB,)]
    assert facts.notes == ("all links of GPU0 are inactive; how many there are is not said",)


def test_links_of_different_rates_are_said():
    facts = read("GPU 0: A (UUID: a)\n Link 0: 25 GB/s\n Link 1: 26.562 GB/s", "f")

    assert facts.link_bandwidth is None
    assert facts.notes == ("the active links have different rates",)


HEAD = "GPU 0: NVIDIA A100 (UUID: GPU-a)\n  Link 0: 25 GB/s\n  Link 1: 25 GB/s\n"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (
            (DATA / "nvlink_elided.txt").read_text(),
            "line 3: '[...]' stands for what was left out: paste the whole output",
        ),
        (f"{HEAD}...", "line 4: '...' stands for what was left out"),
        (f"{HEAD}  Link 3: 25 GB/s", "line 4: Link 3 of GPU 0 follows where Link 2 is due"),
        (f"{HEAD}  Link 1: 25 GB/s", "line 4: Link 1 of GPU 0 follows where Link 2 is due"),
        (f"{HEAD}  Link 2: 25.7", "line 4: 'Link 2: 25.7' of GPU 0, expected a line such as `Link 0: 25.781 GB/s`"),
        (f"{HEAD}  Link 2: -25 GB/s", "line 4: 'Link 2: -25 GB/s' of GPU 0, expected"),
        (f"{HEAD}  Link 2: 2500 GB/s", "line 4: Link 2 of GPU 0 has 2500 GB/s, above 1000"),
        (f"{HEAD}  Link", "line 4: 'Link' of GPU 0, expected"),
        (f"  Link 0: 25 GB/s\n{HEAD}", "line 1: a link of no GPU"),
        (
            f"{HEAD}{HEAD.replace('GPU 0', 'GPU 1')[:-18]}",
            "line 5: the paste ends inside GPU 1, after 1 of 2 links: paste the whole output",
        ),
        (f"{HEAD}GPU 1: NVIDIA A100 (UU", "line 4: the paste ends inside GPU 1, after 0 of 2 links"),
        (f"{HEAD}GPU 1: NVID", "line 4: the paste ends inside GPU 1, after 0 of 2 links"),
        (
            f"GPU 1: NVIDIA A100 (UUID: GPU-b)\n{HEAD}",
            "line 1: GPU 1 shows 0 of 2 links, counted by the others of its model: paste the whole output",
        ),
        (
            f"{HEAD}{HEAD.replace('25', '26')}",
            "line 6: GPU 0 stands twice and differs: save each machine as a file",
        ),
        (HEAD * 1025, "line 3073: holds more than 1,024 GPUs"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(text, wrong):
    assert looks_like(text)
    with pytest.raises(FileError) as error:
        read(text, "paste.txt")
    assert wrong in str(error.value)
    assert str(error.value).isprintable()


@given(
    st.lists(st.lists(st.sampled_from(["25", "25.781", "26.562", "53.125", None]), min_size=4, max_size=4), min_size=1),
    st.sampled_from(["  ", "         ", "\t ", ""]),
)
@settings(derandomize=True)
def test_printed_ports_read_back_exactly(gpus, indent):
    printed = []
    for i, links in enumerate(gpus):
        printed.append(f"GPU {i}: NVIDIA H100 80GB HBM3 (UUID: GPU-{i:04x})")
        printed += [f"{indent}Link {k}: {f'{rate} GB/s' if rate else '<inactive>'}" for k, rate in enumerate(links)]
    text = "\n".join(printed)

    facts = read(text, "f")

    assert looks_like(text)
    assert [gpu.ports for gpu in facts.gpus] == [tuple(float(rate or 0) * GB for rate in links) for links in gpus]
