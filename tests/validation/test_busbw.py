"""Bus bandwidths predicted by closed form beside published ones, and the table of docs/model.md that shows both."""

import re
from pathlib import Path

import pytest

from sim.published import BANDWIDTHS

NEAR = 0.10
PAGE = Path(__file__).parents[2] / "docs" / "model.md"


@pytest.fixture(scope="module")
def predicted():
    """The figure of each case in GB/s."""
    return {one.name: one.predicted() for one in BANDWIDTHS}


@pytest.mark.parametrize("case", BANDWIDTHS, ids=lambda case: case.name)
def test_a_prediction_is_near_or_said_not_to_be(case, predicted):
    error = predicted[case.name] / case.published - 1

    assert (abs(error) <= NEAR) == (not case.why), f"{error:+.1%}"


def test_the_page_has_every_case_as_it_is_predicted(predicted):
    rows = dict(re.findall(r"^\| ([^|]+?) \| (\d[^|]* \| \d[^|]* \| [+-][^|]*?) \|", PAGE.read_text("utf-8"), re.M))

    for case in BANDWIDTHS:
        ours = predicted[case.name]
        assert rows[case.name] == f"{ours:.1f} | {case.published:g} | {100 * (ours / case.published - 1):+.1f} %"
