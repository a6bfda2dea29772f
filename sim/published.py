"""Published figures, and what is predicted for each: bus bandwidths of collectives, and the speed of a ring.

None of it is blind: NVLink's share was chosen beside 8 x H100, the cost of a merge beside the ring.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from algorithms import find as find_algorithm
from algorithms.ir import Attention, Mesh
from sim.bandwidths import Bandwidths
from sim.costs import Costs
from sim.simulate import Site, simulate
from topologies import find
from topologies.dgx import hgx_h800
from topologies.units import GB

BANDWIDTH_SOURCE = (
    "the network page of github.com/stas00/ml-engineering and the vendor's slides quoted there; github.com/NVIDIA/nccl "
    "issue 258 (V100), nccl-tests issue 212 (H100); logs of AWS, CSCS, Lambda and OCI published with their guides; "
    "github.com/coreweave/nccl-tests (GB200)"
)
RING_SOURCE = (
    "README of github.com/zhuzilin/ring-flash-attention: 8 x H800, 32:8 heads of 128, 8192 tokens a GPU, bfloat16, "
    "causal, forward; 8 times one GPU's time for its own 8192 tokens, over the ring's time"
)
RING = {"contiguous": 0.521, "zigzag": 0.852, "striped": 0.744}  # share of ideal, by layout


class Bandwidth(NamedTuple):
    """A bus bandwidth in GB/s of a cluster of so many machines; why it is more than 10 % off, where it is."""

    name: str
    cluster: str
    size: int
    figure: str
    published: float
    why: str = ""

    def predicted(self) -> float:
        """The closed form, in GB/s."""
        return float(getattr(Bandwidths(find(self.cluster)(self.size)), self.figure)) / GB


class Compared(NamedTuple):
    """A figure predicted beside published, with its unit, and what is known of the difference."""

    name: str
    predicted: float
    published: float
    unit: str
    why: str
    source: str

    @property
    def error(self) -> float:
        """Relative to what was published."""
        return self.predicted / self.published - 1


BANDWIDTHS = (
    Bandwidth("DGX A100, ring", "dgx_a100", 1, "all_reduce", 232),
    Bandwidth("DGX H100, ring", "dgx_h100", 1, "all_reduce", 370),
    Bandwidth("HGX H200, ring", "hgx_h200", 1, "all_reduce", 367.2),
    Bandwidth("HGX B200, ring", "hgx_b200", 1, "all_reduce", 682),
    Bandwidth("GB200 NVL72 without SHARP", "gb200_nvl72", 1, "all_reduce", 680),
    Bandwidth("MI300X x8, ring", "mi300x", 1, "all_reduce", 312.9),
    Bandwidth("DGX-1 V100, ring", "dgx1_v100", 1, "all_reduce", 130),
    Bandwidth("DGX-2, ring", "dgx2", 1, "all_reduce", 122),
    Bandwidth("DGX A100 x4, ring", "dgx_a100", 4, "all_reduce", 192),
    Bandwidth("DGX H100 x4, ring", "dgx_h100", 4, "all_reduce", 370),
    Bandwidth("HGX B200 x4, ring", "hgx_b200", 4, "all_reduce", 381.8),
    Bandwidth("MI300X x8, two machines, ring", "mi300x", 2, "all_reduce", 358.37),
    Bandwidth("AWS p4de x2, tree", "aws_p4d", 2, "tree", 78.3),
    Bandwidth("HGX B200 x2, tree", "hgx_b200", 2, "tree", 696.06),
    Bandwidth("GB200 NVL72 x2, ring", "gb200_nvl72", 2, "all_reduce", 810),
    Bandwidth(
        "Alps GH200 x2 at 128 MiB, tree",
        "alps_gh200",
        2,
        "tree",
        122.57,
        "the curve still rises: its last doubling runs at 142",
    ),
    Bandwidth(
        "AWS p5 x2 with NVLS, tree",
        "aws_p5",
        2,
        "tree",
        487,
        "reduced inside the switches",
    ),
    Bandwidth(
        "GB200 NVL72 x20, ring",
        "gb200_nvl72",
        20,
        "all_reduce",
        406,
        "1,440 ranks: at 16 GiB a block is 12 MB; latency is not in it",
    ),
    Bandwidth(
        "DGX A100, all-to-all",
        "dgx_a100",
        1,
        "all_to_all",
        210,
        "all-to-alls reach 0.70 of NVLink, not 0.82",
    ),
    Bandwidth(
        "DGX H100, all-to-all",
        "dgx_h100",
        1,
        "all_to_all",
        320,
        "all-to-alls reach 0.70 of NVLink, not 0.82",
    ),
    Bandwidth(
        "HGX B200, all-to-all",
        "hgx_b200",
        1,
        "all_to_all",
        640,
        "all-to-alls reach 0.70 of NVLink, not 0.82",
    ),
    Bandwidth(
        "DGX H100 x4, all-to-all",
        "dgx_h100",
        4,
        "all_to_all",
        48,
        "published is the NIC's rate; the library's maintainers give 4/3 of it, 64.7",
    ),
)


def ring_shares() -> dict[str, float]:
    """The ring's share of ideal by layout, predicted."""
    site = Site(hgx_h800(1), Costs(kernel="FA2"))
    alone = _ring_seconds(site, 1, "contiguous")
    return {layout: 8 * alone / _ring_seconds(site, 8, layout) for layout in RING}


def _ring_seconds(site: Site, ranks: int, layout: str) -> float:
    problem = Attention(32, 8, 128, 8192 * ranks, 8192 * ranks, mask="causal", layout=layout)  # type: ignore[arg-type]
    return simulate(find_algorithm("ring")["prefill"](problem, Mesh(ring=ranks)), site).makespan


def compared() -> Iterator[Compared]:
    """Predict every figure, one after the other."""
    for layout, share in ring_shares().items():
        why = "real kernels skip whole tiles only" if layout == "striped" else ""
        yield Compared(f"ring on 8 x H800, {layout}", share, RING[layout], "of ideal", why, RING_SOURCE)
    for one in BANDWIDTHS:
        yield Compared(one.name, one.predicted(), one.published, "GB/s", one.why, BANDWIDTH_SOURCE)
