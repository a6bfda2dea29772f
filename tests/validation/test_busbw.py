"""Bus bandwidths predicted by closed form beside published ones, and the table of docs/model.md that shows both."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from sim.bandwidths import Bandwidths
from topologies import find
from topologies.units import GB

NEAR = 0.10
PAGE = Path(__file__).parents[2] / "docs" / "model.md"


class Case(NamedTuple):
    """A published figure in GB/s: of which cluster and collective, and whether it is predicted within 10 %."""

    name: str
    cluster: str
    size: int
    figure: str
    published: float
    is_near: bool = True


# stas00/ml-engineering network/README.md and the slides it quotes, nccl-tests issues and public logs, as
# docs/model.md says
CASES = (
    Case("DGX A100, ring", "dgx_a100", 1, "all_reduce", 232),
    Case("DGX H100, ring", "dgx_h100", 1, "all_reduce", 370),
    Case("HGX H200, ring", "hgx_h200", 1, "all_reduce", 367.2),
    Case("HGX B200, ring", "hgx_b200", 1, "all_reduce", 682),
    Case("GB200 NVL72 without SHARP", "gb200_nvl72", 1, "all_reduce", 680),
    Case("MI300X x8, ring", "mi300x", 1, "all_reduce", 312.9),
    Case("DGX-1 V100, ring", "dgx1_v100", 1, "all_reduce", 130),
    Case("DGX-2, ring", "dgx2", 1, "all_reduce", 122),
    Case("DGX A100 x4, ring", "dgx_a100", 4, "all_reduce", 192),
    Case("DGX H100 x4, ring", "dgx_h100", 4, "all_reduce", 370),
    Case("HGX B200 x4, ring", "hgx_b200", 4, "all_reduce", 381.8),
    Case("MI300X x8, two machines, ring", "mi300x", 2, "all_reduce", 358.37),
    Case("AWS p4de x2, tree", "aws_p4d", 2, "tree", 78.3),
    Case("HGX B200 x2, tree", "hgx_b200", 2, "tree", 696.06),
    Case("GB200 NVL72 x2, ring", "gb200_nvl72", 2, "all_reduce", 810),
    Case("Alps GH200 x2 at 128 MiB, tree", "alps_gh200", 2, "tree", 122.57, False),
    Case("AWS p5 x2 with NVLS, tree", "aws_p5", 2, "tree", 487, False),
    Case("GB200 NVL72 x20, ring", "gb200_nvl72", 20, "all_reduce", 406, False),
    Case("DGX A100, all-to-all", "dgx_a100", 1, "all_to_all", 210, False),
    Case("DGX H100, all-to-all", "dgx_h100", 1, "all_to_all", 320, False),
    Case("HGX B200, all-to-all", "hgx_b200", 1, "all_to_all", 640, False),
    Case("DGX H100 x4, all-to-all", "dgx_h100", 4, "all_to_all", 48, False),
)


@pytest.fixture(scope="module")
def predicted():
    """The figure of each case in GB/s."""
    return {one.name: getattr(Bandwidths(find(one.cluster)(one.size)), one.figure) / GB for one in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_prediction_is_near_or_said_not_to_be(case, predicted):
    error = predicted[case.name] / case.published - 1

    assert (abs(error) <= NEAR) == case.is_near, f"{error:+.1%}"


def test_the_page_has_every_case_as_it_is_predicted(predicted):
    rows = dict(re.findall(r"^\| ([^|]+?) \| (\d[^|]* \| \d[^|]* \| [+-][^|]*?) \|", PAGE.read_text("utf-8"), re.M))

    for case in CASES:
        ours = predicted[case.name]
        assert rows[case.name] == f"{ours:.1f} | {case.published:g} | {100 * (ours / case.published - 1):+.1f} %"
