"""Assumptions can be changed by name, and a wrong one is refused in one line."""

from dataclasses import fields

import pytest

from sim.assume import assume
from sim.costs import Costs
from sim.numbers import NUMBERS, TIME
from topologies.links import LINK_KINDS
from topologies.units import us


def test_assumptions_change_by_name_and_unit():
    costs = assume(Costs(), "merge_nbytes=12, comm_launch=8us,nvlink=85%,memory_share=0.9")

    assert costs.merge_nbytes == 12
    assert costs.comm_launch == pytest.approx(8 * us)
    assert costs.link_share == {**Costs().link_share, "nvlink": pytest.approx(0.85)}
    assert costs.memory_share == 0.9
    assert costs.attend_launch == Costs().attend_launch


def test_every_number_of_the_cost_model_can_be_changed_and_is_then_named():
    fields_of = {field.name for field in fields(Costs)} - {"kernel", "link_share", "launch", "said", "measured"}
    assert set(NUMBERS) == fields_of | set(LINK_KINDS)
    for name, number in NUMBERS.items():
        changed = assume(Costs(), f"{name}=0.123{'s' * (number.kind == TIME)}")
        assert changed.value(name) == 0.123
        said = [line for line in changed.assumptions(()) if line.startswith(f"{name}: ")]
        assert len(said) == 1
        assert "(as you said; default " in said[0]


def test_what_was_said_is_no_longer_given_our_source():
    costs = assume(Costs(), "merge_nbytes=12,comm_launch=8us")
    text = "\n".join(costs.assumptions())

    assert "merge_nbytes: 12 bytes per element moved by a merge op (as you said; default 38)" in text
    assert "comm_launch: 8 us to launch a communication op (as you said; default 3 us)" in text
    assert "eager passes" not in text
    assert "attend_launch: 5 us to launch an attention kernel (kernels queued in a stream)" in text


@pytest.mark.parametrize(
    "text, message",
    [
        ("merge_bytes=12", "no assumption 'merge_bytes': .* nearest is merge_nbytes"),
        ("merge_nbytes", "NAME=NUMBER"),
        ("merge_nbytes=lots", "must be a number"),
        ("comm_launch=-3us", "must be a number of at least 0"),
        ("comm_launch=nan", "must be a number"),
        ("nvlink=120%", "is a share"),
        ("nic=0", "is a share"),
        ("nvlink=1e-300", "is a share: at least 1e-06"),
        ("comm_launch=3", "comm_launch is a time: say 3us"),
        ("comm_launch=3%", "comm_launch is a time: say 3us"),
        ("nvlink=3us", "nvlink is a share"),
        ("merge_nbytes=12us", "merge_nbytes is a count of bytes: say 12"),
        ("nvlink.latency=2us", "nvlink.latency belongs to the topology: write a FILE.py:NAME"),
        ("gpu.memory=2", "gpu.memory belongs to the topology"),
        ("comm_launch=1e300s", "must be at most 3600"),
        ("attend_launch=1e4s", "must be at most 3600"),
        ("merge_nbytes=1e308", "must be at most 1e\\+06"),
    ],
)
def test_wrong_assumptions_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        assume(Costs(), text)


# How kernels are started: hardware.md 1.3 proposes 3 us in a stream, 1.5 in a graph, 6 where the host is waited for.


@pytest.mark.parametrize("how, kernel", [("queued", 3), ("captured", 1.5), ("eager", 6)])
def test_a_launch_takes_as_long_as_its_kernels_take_to_start(how, kernel):
    # a split-KV decode starts two; what an attention launch takes beyond its kernels stays
    costs = Costs().launched(how)

    assert costs.glue_launch == costs.comm_launch == pytest.approx(kernel * us)
    assert costs.attend_launch == pytest.approx((2 + kernel) * us)
    assert costs.decode_launch == pytest.approx((6 + 2 * kernel) * us)
    assert costs.launched("queued").values() == pytest.approx(Costs().values())


def test_the_way_kernels_are_started_is_told_where_its_numbers_are():
    text = "\n".join(assume(Costs().launched("captured"), "comm_launch=2us").assumptions())

    assert "decode_launch: 9 us to launch a split-KV decode and the kernel that combines it (kernels captured" in text
    assert "comm_launch: 2 us to launch a communication op (as you said; default 1.5 us)" in text
    assert "queued" not in text


def test_an_unknown_way_of_starting_kernels_is_told_the_nearest():
    with pytest.raises(ValueError, match=r"no launch 'captrued': expected one of .*; nearest is captured"):
        Costs().launched("captrued")
