"""Local attention, one contract for every array library.

A kernel is a module with two functions. Token positions are global and come in any order, so contiguous,
zigzag and striped shards, and a diagonal block of any of them, are the same case to a kernel.

attend(q, k, v, rows, cols, mask, score) -> (out, lse)
    q (n, Hq, D), k (m, Hkv, D), v (m, Hkv, Dv); rows (n,), cols (m,) int64 positions of queries and keys.
    out (n, Hq, Dv), lse (n, Hq). Query head h reads kv head h // (Hq // Hkv).
    A query that sees no key has out = 0, lse = -inf.

attend_backward(q, k, v, do, lse, delta, rows, cols, mask, score) -> (dq, dk, dv)
    lse and delta = rowsum(do * out), both (n, Hq), are those of the whole row, over the keys of all ranks, and a sink
    if there is one; the result is then this block's share of the gradients.

mask is an `algorithms.ir.mask.Mask`, score an `algorithms.ir.score.Score` with a slope for each of the Hq heads, or
none. float64 is computed in float64, float32 and the
half types in float32, and results have the dtype of the computation. A NaN in a query or a key makes the rows
that see it NaN and no others; one in a value may also reach rows of its tile that do not see it.

A kernel whose module says ON_DEVICE takes arrays where they are, on a GPU, and leaves its results there; positions are
NumPy's for all. One that says HALF_WEIGHTS rounds weights to the half type of its arrays, as flash kernels do, and is
held to what dense attention in that type loses.
"""

import importlib
from difflib import get_close_matches
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from algorithms.ir.mask import Mask
from algorithms.ir.score import Score

Array = NDArray[Any]
Positions = NDArray[np.int64]

MODULES = {"numpy": "tiled_numpy", "numba": "fused_numba", "cuda": "cuda_tiles", "torch": "torch_flash"}


class Kernel(Protocol):
    """The two functions that a kernel module offers."""

    def attend(
        self, q: Array, k: Array, v: Array, rows: Positions, cols: Positions, mask: Mask, score: Score
    ) -> tuple[Array, Array]:
        """Attend the queries at `rows` to the keys at `cols`."""

    def attend_backward(
        self,
        q: Array,
        k: Array,
        v: Array,
        do: Array,
        lse: Array,
        delta: Array,
        rows: Positions,
        cols: Positions,
        mask: Mask,
        score: Score,
    ) -> tuple[Array, Array, Array]:
        """Return this block's share of the gradients of q, k and v."""


def find(name: str) -> Kernel:
    """Return a kernel: "numpy", "numba" (compiled at first use, then cached on disk), "cuda" or "torch".

    Raises:
        ValueError: there is no kernel of that name.
    """
    if name not in MODULES:
        raise ValueError(unknown("kernel", name, MODULES))
    return cast(Kernel, importlib.import_module(f"{__name__}.{MODULES[name]}"))


def unknown(what: str, name: str, known: dict[str, Any]) -> str:
    """Say in one line that `name` is not known, what is, and which of those is nearest."""
    nearest = get_close_matches(name, known, n=1, cutoff=0.0)[0]
    return f"no {what} {name!r}: expected one of {', '.join(sorted(known))}; nearest is {nearest}"
