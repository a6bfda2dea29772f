"""The CUDA sources of the executor, and the kernels that are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "kernels" / "cuda"
OPTIONS = ("--std=c++17",)
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
"""What every source is compiled for in tests: Ampere, Hopper, Blackwell."""

COMPUTED = {"float64": "double", "float32": "float"}
KEPT = COMPUTED | {"float16": "Half"}
HALVES = {"float16": "Half", "bfloat16": "Brain"}
LARGEST_BLOCK = 1024
SMALLEST_BLOCK = 32

# What only a device has stands first; a host that plays one puts its own in its place.
PRELUDE = "ptx.cuh"
FILES = {"attention": ("numbers.cuh", "attention.cu"), "states": ("numbers.cuh", "states.cu")}
KERNELS = {
    "attention": (
        *(f"softmax_tile<{t}, {t}>" for t in COMPUTED.values()),
        *(f"softmax_tile<float, {w}>" for w in HALVES.values()),
        *(f"{kernel}<{t}>" for kernel in ("gradient_tile", "finish_rows") for t in COMPUTED.values()),
    ),
    "states": tuple(f"{kernel}<{t}>" for kernel in ("merge", "weigh", "normalise") for t in KEPT.values()),
}


@cache
def text(name: str) -> str:
    """One source as the device's compiler reads it."""
    return "\n".join((FOLDER / file).read_text() for file in (PRELUDE, *FILES[name]))


def home(kernel: str) -> str:
    """The source that a kernel is made of.

    Raises:
        ValueError: there is no such kernel.
    """
    for name, kernels in KERNELS.items():
        if kernel in kernels:
            return name
    raise ValueError(f"no kernel {kernel}: expected one of {', '.join(every())}")


def every() -> Sequence[str]:
    """All kernels."""
    return [kernel for kernels in KERNELS.values() for kernel in kernels]


def block(width: int) -> int:
    """Threads of a block that works through so many numbers: whole warps, as few as do it in eight turns each."""
    least = min(LARGEST_BLOCK, max(SMALLEST_BLOCK, width // 8))
    return 1 << (least - 1).bit_length()
