"""GPUs: peaks, memories and links as published, each with its source. The table is gpus.toml."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from topologies.units import GB, TFLOP


@dataclass(frozen=True)
class Gpu:
    """One GPU as its maker sells it; nothing here was measured.

    Attributes:
        name: maker's name, form factor and memory, such as H100-SXM5-80. Of an MI250X it is one of its two dies
            (GCDs), which programs see as a GPU each; of a TPU a chip.
        flop_rates: dense FLOP/s by dtype: bf16, fp16, fp8, tf32, fp32 (vector units), fp64, fp64_tensor; those that
            it has.
        memory: bytes, with the data sheet's GB read as 1e9 (a driver reports slightly more).
        memory_bandwidth: bytes/s.
        sms: streaming multiprocessors, or compute units.
        link_kind: what joins it to its like: nvlink, xgmi or ici; "" where there is no such link.
        links, link_bandwidth: number of these links, and bytes/s of one of them in one direction; 0 where none.
        pcie_bandwidth: bytes/s of the x16 slot in one direction, before protocol overhead; 0 of a TPU.
        source: where the numbers are published, "" if no number was seen.
        recalled: attribute -> what is unverified about it; these count as assumptions.
        chips, words, sizes: what names of it are made of, and the GB that may be among them.
    """

    name: str
    flop_rates: Mapping[str, float] = field(hash=False)
    memory: float
    memory_bandwidth: float
    sms: int
    link_kind: str
    links: int
    link_bandwidth: float
    pcie_bandwidth: float
    source: str
    recalled: Mapping[str, str] = field(hash=False)
    chips: frozenset[str]
    words: frozenset[str]
    sizes: frozenset[int]

    @property
    def flop_rate(self) -> float:
        """Dense bfloat16 FLOP/s, or float16 where there is no bfloat16."""
        return self.flop_rates.get("bf16") or self.flop_rates["fp16"]

    @property
    def link_total(self) -> float:
        """Bytes/s of all scale-up links together, in one direction."""
        return self.links * self.link_bandwidth

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

    def is_called(self, words: frozenset[str]) -> bool:
        """Tell whether these words, in lower case, name this GPU: a chip of it and nothing that it is not."""
        rest = words - self.chips - self.words
        return bool(words & self.chips) and all(_size(word) in self.sizes for word in rest)


def named(text: str) -> Gpu | None:
    """Return the GPU that a text names, None if it is none of the table.

    Nvidia-smi's and rocm-smi's names are understood (NVIDIA A100-SXM4-80GB, AMD Instinct MI300X OAM, gfx942:sramecc+),
    and so are short ones (h100, 4090, mi300x). What a short name leaves open is taken to be the usual: h100 the SXM5
    of 80 GB, a100 the SXM4 of 80 GB, v100 the SXM2 of 32 GB; of an architecture, sm90 an H100 as above, sm80 an A100,
    gfx90a (MI210, MI250, MI250X) a die of an MI250X, gfx942 (MI300A, MI300X, MI325X) an MI300X.
    A word that the GPU does not have (a MIG slice, another memory) is no match, not a guess.
    """
    words = frozenset(re.findall(r"[a-z0-9]+", text[:200].lower())) - _MAKERS
    return next((gpu for gpu in GPUS.values() if gpu.is_called(words)), None)


_NODE_FACTS = ("flop_rate", "memory", "memory_bandwidth")
# Words of names that tell no GPU from another.
_NVIDIA = frozenset(["nvidia", "tesla", "geforce", "rtx", "quadro", "gpu", "corporation"])
_AMD = frozenset(["amd", "ati", "radeon", "instinct", "oam", "mcm", "ac", "mba", "vf", "sramecc", "xnack"])
_AMD_CODES = frozenset(["advanced", "micro", "devices", "inc", "aqua", "vanjaram", "aldebaran", "arcturus"])
_MAKERS = _NVIDIA | _AMD | _AMD_CODES | {"google"}


def _size(word: str) -> int:
    """Read a memory of so many GB, as 80gb, 80g or 80; -1 for any other word."""
    digits = word.removesuffix("b").removesuffix("g")
    return int(digits) if re.fullmatch("[0-9]{1,4}", digits) else -1


def _read(path: Path) -> Iterator[Gpu]:
    """Read the table."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    for name, row in table["gpu"].items():
        yield _gpu(name, row, table["listings"][row["source"]] if "source" in row else "")


def _gpu(name: str, row: Mapping[str, Any], source: str) -> Gpu:
    """Return one row of the table as a GPU."""
    recalled = row.get("recalled", {})
    if recalled == "all":
        rate = row["tflops"].get("bf16") or row["tflops"]["fp16"]
        recalled = {
            "flop_rate": row.get("flop_rate_note", f"{rate:g} TFLOP/s recalled, unverified"),
            "memory": f"{row['memory_gb']:g} GB recalled, unverified",
            "memory_bandwidth": f"{row['memory_gbps']:g} GB/s recalled, unverified",
        } | dict.fromkeys(("flop_rates", "sms", "links", "link_bandwidth"), "recalled, unverified")
    return Gpu(
        name=name,
        flop_rates=MappingProxyType({dtype: rate * TFLOP for dtype, rate in row["tflops"].items()}),
        memory=row["memory_gb"] * GB,
        memory_bandwidth=row["memory_gbps"] * GB,
        sms=row["sms"],
        link_kind=row["link"]["kind"],
        links=row["link"]["count"],
        link_bandwidth=row["link"]["gbps"] * GB,
        pcie_bandwidth=row.get("pcie_gbps", 0) * GB,
        source=source,
        recalled=MappingProxyType(dict(recalled)),
        chips=frozenset(row["chip"]),
        words=frozenset([*row["words"], *name.lower().split("-")]),
        sizes=frozenset([row["memory_gb"], *row.get("printed_gb", ())]),
    )


GPUS: Mapping[str, Gpu] = MappingProxyType({gpu.name: gpu for gpu in _read(Path(__file__).with_name("gpus.toml"))})
