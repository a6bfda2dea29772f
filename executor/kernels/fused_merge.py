"""The merge of two states in one compiled pass over the outputs, where NumPy makes a dozen and as many temporaries.

The weights, one a row and head, are NumPy's, and each product and sum is rounded as there: the bits are those of
`algorithms.ops.merge`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba import config

from algorithms.ops import module
from executor.kernels import Array
from executor.kernels.fused_numba import compiled

COMPILED_FOR = ("float64", "float32")


def fused() -> Mapping[str, Callable[..., tuple[Any, ...]]]:
    """What stands in for the meaning of ops, by kind; nothing where nothing is compiled."""
    return {} if getattr(config, "DISABLE_JIT", 0) else {"merge": merge}


def merge(out_a: Array, lse_a: Array, out_b: Array, lse_b: Array) -> tuple[Array, Array]:
    """Merge as the op's meaning says, in float64 and then in the dtypes of the first."""
    meaning = module("merge").meaning
    if out_a.shape[0] != out_b.shape[0] or any(x.dtype.name not in COMPILED_FOR for x in (out_a, out_b)):
        plain: tuple[Array, Array] = meaning(np, out_a, lse_a, out_b, lse_b)
        return plain
    l1, l2 = lse_a.astype(np.float64, copy=False), lse_b.astype(np.float64, copy=False)
    top = np.maximum(l1, l2)
    top = np.where(top == -np.inf, 0.0, top)
    w1, w2 = np.exp(l1 - top), np.exp(l2 - top)
    total = w1 + w2
    seen = np.where(total == 0, 1.0, total)
    out = np.empty(out_a.shape, out_a.dtype)
    a, b, made = (np.ascontiguousarray(x).reshape(-1, x.shape[-1]) for x in (out_a, out_b, out))
    weighted_sum(a, b, (w1 / seen).reshape(-1), (w2 / seen).reshape(-1), made)
    lse = np.where(total == 0, -np.inf, top + np.log(seen))
    return out, lse.astype(lse_a.dtype, copy=False)


@compiled()
def weighted_sum(a: Array, b: Array, weight_a: Array, weight_b: Array, out: Array) -> None:
    """Write weight_a * a + weight_b * b, (rows, width), the weights (rows,)."""
    for i in range(a.shape[0]):
        x, y = weight_a[i], weight_b[i]
        for d in range(a.shape[1]):
            out[i, d] = x * np.float64(a[i, d]) + y * np.float64(b[i, d])
