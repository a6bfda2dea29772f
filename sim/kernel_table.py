"""Fitted speeds of attention kernels: time = launch + FLOP / (peak * best) * (1 + extra tokens / mean keys).

The rows here stand on 280 published points (root mean square error 2.9 %, worst 9.6 %, in sample). Leaving a length
out, shortest excepted, the fit errs by 3.8 %, worst 16 %; for the shortest length, by up to 42 %. Square tiles,
16k-65k tokens a kernel; other shapes are extrapolated.
"""

from __future__ import annotations

from typing import NamedTuple

from algorithms import unknown

HALF, EIGHT = "16 bit", "8 bit"
FA2_A100 = "flash-attention assets/flash2_a100_fwd_bwd_benchmark.png"
FA2_H100 = "flash-attention assets/flash2_h100_fwd_bwd_benchmark.png"
FA3 = "FlashAttention-3, arXiv:2407.08608, figures 5-7"
CUDNN = "cuDNN frontend attention benchmark tables"
FA4 = "github.com/Dao-AILab/flash-attention pull 2605"


class Fit(NamedTuple):
    """One kernel on one GPU.

    best: share of the dense peak reached by long full tiles. start, edge: key tokens charged to each query tile
    for its start and end, and for the mask's diagonal (None: not published; the forward kernel's is taken).
    """

    gpu: str
    kernel: str
    head_dim: int
    passes: str
    bits: str
    best: float
    start: float
    edge: float | None
    source: str


FITS = (
    Fit("A100", "FA2", 64, "fwd+bwd", HALF, 0.567, 167.2, 87.2, FA2_A100),
    Fit("A100", "FA2", 128, "fwd+bwd", HALF, 0.637, 133.3, 125.1, FA2_A100),
    Fit("H100", "FA3", 64, "fwd", HALF, 0.5122, 251.5, 149.9, FA3),
    Fit("H100", "FA3", 128, "fwd", HALF, 0.6695, 174.2, 112.4, FA3),
    Fit("H100", "FA3", 256, "fwd", HALF, 0.7462, 219.1, 154.6, FA3),
    Fit("H100", "FA3", 64, "bwd", HALF, 0.5012, 396.9, None, FA3),
    Fit("H100", "FA3", 128, "bwd", HALF, 0.5973, 418.4, None, FA3),
    Fit("H100", "FA3", 64, "fwd", EIGHT, 0.3346, 811.8, None, FA3),
    Fit("H100", "FA3", 128, "fwd", EIGHT, 0.5598, 993.9, None, FA3),
    Fit("H100", "FA3", 256, "fwd", EIGHT, 0.5848, 568.5, 39.9, FA3),
    Fit("H100", "FA2", 64, "fwd", HALF, 0.3212, 42.5, 147.0, FA3),
    Fit("H100", "FA2", 128, "fwd", HALF, 0.368, 60.7, 154.3, FA3),
    Fit("H100", "FA2", 256, "fwd", HALF, 0.3225, 50.6, 78.6, FA3),
    Fit("H100", "FA2", 64, "bwd", HALF, 0.2992, 247.8, None, FA2_H100),
    Fit("H100", "FA2", 128, "bwd", HALF, 0.3326, 268.7, None, FA2_H100),
    Fit("H100", "cuDNN", 64, "fwd", HALF, 0.4129, 89.0, 110.3, FA3),
    Fit("H100", "cuDNN", 128, "fwd", HALF, 0.5971, 48.8, 159.1, FA3),
    Fit("H100", "cuDNN", 256, "fwd", HALF, 0.5655, 49.2, 153.0, FA3),
    Fit("H100", "cuDNN", 64, "bwd", HALF, 0.4559, 331.7, None, FA3),
    Fit("H100", "cuDNN", 128, "bwd", HALF, 0.5475, 368.6, None, FA3),
    Fit("H200", "cuDNN", 128, "fwd", HALF, 0.714, 185.3, 219.5, CUDNN),
    Fit("H200", "cuDNN", 128, "bwd", HALF, 0.6183, 400.2, 222.7, CUDNN),
    Fit("H200", "cuDNN", 128, "fwd", EIGHT, 0.5435, 399.1, 78.6, CUDNN),
    Fit("GB200", "cuDNN", 128, "fwd", HALF, 0.6959, 342.1, 159.3, CUDNN),
    Fit("GB200", "cuDNN", 128, "bwd", HALF, 0.5497, 334.6, 151.2, CUDNN),
    Fit("GB200", "cuDNN", 128, "fwd", EIGHT, 0.4592, 354.0, 179.8, CUDNN),
    Fit("GB200", "cuDNN", 128, "bwd", EIGHT, 0.3819, 1033.1, 265.4, CUDNN),
    Fit("GB200", "FA4", 64, "fwd", HALF, 0.5205, 647.1, 225.4, FA4),
    Fit("GB200", "cuDNN", 64, "fwd", HALF, 0.4716, 186.8, 235.2, FA4),
)
KERNELS = tuple(sorted({fit.kernel for fit in FITS}))
_SAME_CHIP = {"H800": "H100", "H200": "H100", "GH200": "H100"}  # where a chip has no row of its own


def chip(gpu: str) -> str:
    """The chip of a GPU's full name: H100-SXM5-80 is an H100."""
    return gpu.partition("-")[0]


def find(gpu: str, head_dim: int, passes: str, bits: str, kernel: str | None) -> Fit | None:
    """Choose the fit for a GPU: at the nearest head size, its own before its sister chip's, the fastest published.

    Args:
        passes: fwd or bwd. bits: HALF or EIGHT. kernel: one of KERNELS, or None for the fastest.
    Returns:
        The fit, or None when nothing is published for this GPU.
    Raises:
        ValueError: no such kernel, or none published for this GPU and pass.
    """
    if kernel is not None and kernel not in KERNELS:
        raise ValueError(unknown("kernel", kernel, KERNELS))
    names = (chip(gpu), _SAME_CHIP.get(chip(gpu), ""))
    rows = [f for f in FITS if f.gpu in names and passes in f.passes and f.bits == bits and kernel in (None, f.kernel)]
    if rows:
        return min(rows, key=lambda f: (abs(f.head_dim - head_dim), f.gpu != names[0], -f.best))
    if kernel is not None:
        raise ValueError(f"no published speed of kernel {kernel} for {gpu}, {passes}, {bits}")
    return None


def edge(fit: Fit) -> float:
    """Tokens charged for the mask's edge; where a backward has none published, its forward's."""
    if fit.edge is not None:
        return fit.edge
    forward = [f for f in FITS if (f.gpu, f.kernel) == (fit.gpu, fit.kernel) and f.edge is not None]
    return min(forward, key=lambda f: abs(f.head_dim - fit.head_dim)).edge or 0.0
