"""Assumptions can be changed by name, and a wrong one is refused in one line."""

import pytest

from sim.assume import NUMBERS, assume
from sim.costs import Costs
from topologies.units import us


def test_assumptions_change_by_name_and_unit():
    costs = assume(Costs(), "merge_nbytes=12, comm_launch=8us,nvlink=85%,memory_share=0.9")

    assert costs.merge_nbytes == 12
    assert costs.comm_launch == pytest.approx(8 * us)
    assert costs.link_share == {**Costs().link_share, "nvlink": pytest.approx(0.85)}
    assert costs.memory_share == 0.9
    assert costs.attend_launch == Costs().attend_launch


def test_every_number_of_the_cost_model_can_be_changed_and_is_then_named():
    for name in NUMBERS:
        changed = assume(Costs(), f"{name}=0.123")
        assert getattr(changed, name) == 0.123
        assert changed.assumptions() != Costs().assumptions(), name


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
        ("comm_launch=1e300", "must be at most 3600"),
        ("attend_launch=1e4", "must be at most 3600"),
        ("merge_nbytes=1e308", "must be at most 1e\\+06"),
    ],
)
def test_wrong_assumptions_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        assume(Costs(), text)
