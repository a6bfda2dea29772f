"""GPUs: peaks, memories and links as published, each with its source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from topologies.units import GB, TFLOP


@dataclass(frozen=True)
class Gpu:
    """One GPU as its maker sells it; nothing here was measured.

    Attributes:
        name: maker's name, form factor and memory, such as H100-SXM5-80.
        flop_rates: dense FLOP/s by dtype: bf16, fp16, fp8, tf32, fp32 (vector units), fp64, fp64_tensor.
        memory: bytes, with the data sheet's GB read as 1e9 (a driver reports slightly more).
        memory_bandwidth: bytes/s.
        sms: streaming multiprocessors.
        nvlinks, nvlink_bandwidth: number of links, and bytes/s of one link in one direction.
        pcie_bandwidth: bytes/s of the x16 slot in one direction, before protocol overhead.
        source: where the numbers are published.
        recalled: attribute -> what is unverified about it; these count as assumptions.
    """

    name: str
    flop_rates: Mapping[str, float] = field(hash=False)
    memory: float
    memory_bandwidth: float
    sms: int
    nvlinks: int
    nvlink_bandwidth: float
    pcie_bandwidth: float
    source: str
    recalled: Mapping[str, str] = field(hash=False)

    @property
    def flop_rate(self) -> float:
        """Dense bfloat16 FLOP/s."""
        return self.flop_rates["bf16"]

    @property
    def nvlink_total(self) -> float:
        """Bytes/s of all NVLinks together, in one direction."""
        return self.nvlinks * self.nvlink_bandwidth

    def node(self, rank: int) -> dict[str, object]:
        """Return the attributes of this GPU as a node of a topology."""
        return {
            "kind": "gpu",
            "rank": rank,
            "gpu": self.name,
            "flop_rate": self.flop_rate,
            "memory": self.memory,
            "memory_bandwidth": self.memory_bandwidth,
        }

    def sources(self) -> dict[str, str]:
        """Return fact -> source for the numbers that node() carries."""
        return {f"gpu.{fact}": self.source for fact in _NODE_FACTS if fact not in self.recalled}

    def assumptions(self) -> list[str]:
        """Return "fact: what is unverified" for the numbers that node() carries."""
        return [f"gpu.{fact}: {self.recalled[fact]}" for fact in _NODE_FACTS if fact in self.recalled]


_NODE_FACTS = ("flop_rate", "memory", "memory_bandwidth")

_LISTING = "https://github.com/stas00/ml-engineering (compute/accelerator/README.md @744d01e)"
_H800_LISTING = "https://www.philisun.com/technical-analysis/nvidia-h800-vs-h100-a-technical-deep-dive-into-politically-defined-ai-chips/"
_FP64 = "fp64 and fp64_tensor recalled, unverified"


def _rates(**tflops: float) -> Mapping[str, float]:
    """Return FLOP/s by dtype from TFLOP/s by dtype."""
    return MappingProxyType({dtype: rate * TFLOP for dtype, rate in tflops.items()})


def _recalled(**notes: str) -> Mapping[str, str]:
    """Return the notes, unchangeable."""
    return MappingProxyType(notes)


_AMPERE = _rates(bf16=312, fp16=312, tf32=156, fp32=19.5, fp64=9.7, fp64_tensor=19.5)
_HOPPER = _rates(bf16=989.4, fp16=989.4, fp8=1978.9, tf32=494.7, fp32=66.9, fp64=33.5, fp64_tensor=66.9)
_HOPPER_EXPORT = _rates(bf16=989.4, fp16=989.4, fp8=1978.9, tf32=494.7, fp32=66.9, fp64=1, fp64_tensor=1)
_BLACKWELL = _rates(bf16=2500, fp16=2500, fp8=5000, tf32=1250, fp32=80, fp64=40, fp64_tensor=40)

_ALL = (
    Gpu(
        name="A100-SXM4-40",
        flop_rates=_AMPERE,
        memory=40 * GB,
        memory_bandwidth=1555 * GB,
        sms=108,
        nvlinks=12,
        nvlink_bandwidth=25 * GB,
        pcie_bandwidth=31.5 * GB,
        source=_LISTING,
        recalled=_recalled(
            memory="40 GB recalled, unverified",
            memory_bandwidth="1555 GB/s recalled, unverified",
            flop_rates=_FP64,
        ),
    ),
    Gpu(
        name="A100-SXM4-80",
        flop_rates=_AMPERE,
        memory=80 * GB,
        memory_bandwidth=2039 * GB,
        sms=108,
        nvlinks=12,
        nvlink_bandwidth=25 * GB,
        pcie_bandwidth=31.5 * GB,
        source=_LISTING,
        recalled=_recalled(
            memory_bandwidth="2039 GB/s recalled, unverified; the listing rounds it to 2.00 TB/s",
            flop_rates=_FP64,
        ),
    ),
    Gpu(
        name="H100-SXM5-80",
        flop_rates=_HOPPER,
        memory=80 * GB,
        memory_bandwidth=3350 * GB,
        sms=132,
        nvlinks=18,
        nvlink_bandwidth=25 * GB,
        pcie_bandwidth=63 * GB,
        source=_LISTING,
        recalled=_recalled(flop_rates=_FP64),
    ),
    Gpu(
        name="H800-SXM5-80",
        flop_rates=_HOPPER_EXPORT,
        memory=80 * GB,
        memory_bandwidth=3350 * GB,
        sms=132,
        nvlinks=8,
        nvlink_bandwidth=25 * GB,
        pcie_bandwidth=63 * GB,
        source=_H800_LISTING,
        recalled=_recalled(
            flop_rate="989.4 TFLOP/s taken to be that of the H100, of which it is the export variant",
            memory="80 GB taken to be that of the H100",
            memory_bandwidth="3350 GB/s taken to be that of the H100",
            flop_rates="as the H100, but fp64 cut to 1 TFLOP/s; no data sheet seen",
            sms="taken to be those of the H100",
            nvlinks="8, derived: 200 GB/s each way over links of 25",
        ),
    ),
    Gpu(
        name="H200-SXM-141",
        flop_rates=_HOPPER,
        memory=141 * GB,
        memory_bandwidth=4800 * GB,
        sms=132,
        nvlinks=18,
        nvlink_bandwidth=25 * GB,
        pcie_bandwidth=63 * GB,
        source=_LISTING,
        recalled=_recalled(flop_rates=_FP64),
    ),
    Gpu(
        name="GB200-186",
        flop_rates=_BLACKWELL,
        memory=186 * GB,
        memory_bandwidth=8000 * GB,
        sms=152,
        nvlinks=18,
        nvlink_bandwidth=50 * GB,
        pcie_bandwidth=63 * GB,
        source=_LISTING,
        recalled=_recalled(sms="152 recalled; another listing implies 148"),
    ),
)

GPUS: Mapping[str, Gpu] = MappingProxyType({gpu.name: gpu for gpu in _ALL})
