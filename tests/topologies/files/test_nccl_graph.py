"""What a plan of NCCL's says, and what it does not."""

from pathlib import Path

import pytest

from topologies.files import nccl_graph, read
from topologies.files.facts import FileError

DATA = Path(__file__).parents[2] / "data" / "files"


def test_a_plan_names_gpus_and_nics_and_no_speed_of_a_link():
    facts = read(str(DATA / "nccl_graph.xml"))

    assert [gpu.index for gpu in facts.gpus] == [0, 1, 2]
    assert [(nic.name, nic.bandwidth) for nic in facts.nics] == [("net0", None), ("net1", None)]
    assert not facts.links
    assert facts.link_bandwidth is None
    assert facts.tree is None


def test_neighbours_on_a_channel_are_at_most_as_far_as_the_nearest_class_of_their_plans():
    near = read(str(DATA / "nccl_graph.xml")).near

    assert near["gpu0", "gpu2"] == near["gpu2", "gpu0"] == "PHB"
    assert near["gpu1", "net0"] == "PXB"
    assert near["gpu0", "net0"] == near["gpu2", "net0"] == "PIX"  # rings say PXB, trees PIX


def test_what_was_planned_is_said_as_a_plan():
    notes = read(str(DATA / "nccl_graph.xml")).notes

    assert notes[0].startswith("NCCL planned rings: 2 channels, 20.4 GB/s a channel over PHB (the CPU)")
    assert "nchannels is '2', 1 are there: line 18" in notes


@pytest.mark.parametrize("path", ["NVL", "NVB", "C2C", "P2C", "PXN", "DIS", "???"])
def test_a_class_that_is_no_way_over_pcie_is_only_said(path):
    text = (
        f'<graphs><graph pattern="4" nchannels="1" speedintra="20" typeintra="{path}">'
        '<channel><gpu dev="0"/><gpu dev="1"/></channel></graph></graphs>'
    )
    facts = nccl_graph.read(text, "plan.xml")

    assert not facts.near
    assert path in facts.notes[0]


@pytest.mark.parametrize(
    "text, wrong",
    [
        ("<graphs><graph pattern='4'>", "line 1: the text ends inside <graph> of line 1, which is never closed"),
        ("<graph pattern='4'/>", "line 1: begins with <graph>: expected <graphs> around all"),
        ("<graphs>\n<graph/></graphs>", "line 1: names no GPU: no <gpu> in a <channel> of a <graph>"),
        ("<graphs><graph><channel>\n<gpu/></channel></graph></graphs>", "line 2: dev of a <gpu> is '': no number"),
        ("<graphs><channel>\n</graphs>", "line 2: <channel> of line 1 is not closed where another tag closes"),
    ],
)
def test_a_broken_plan_is_refused_in_a_line(text, wrong):
    assert nccl_graph.looks_like(text)
    with pytest.raises(FileError, match=r"plan\.xml") as error:
        nccl_graph.read(text, "plan.xml")

    assert wrong in str(error.value)
