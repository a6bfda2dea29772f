"""What half types lose: the measure for kernels that keep weights in them, as flash kernels do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.ir.mask import Mask
from algorithms.ir.score import Score
from executor.exactness import error
from executor.kernels import Array, Positions
from executor.kernels.dense import score_blocks

HALF_EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
AT_MOST = 2
"""Times the error of dense attention in the type that a kernel may have."""


class Lost(NamedTuple):
    """The greatest error of dense attention whose every step is kept in a half type."""

    out: float
    lse: float


def lost(q: Array, k: Array, v: Array, rows: Positions, cols: Positions, mask: Mask, score: Score) -> Lost:
    """Round logits, weights and results to the dtype of q, and compare with none of them rounded."""
    kind, worst = q.dtype, Lost(0.0, 0.0)
    wide_q, wide_k, wide_v = (x.astype(np.float64) for x in (q, k, v))
    for _, _, kv_head, logits, _ in score_blocks(wide_q, wide_k, rows, cols, mask, score):
        values = wide_v[:, kv_head]
        (out, lse), (other, other_lse) = _softmax(logits, values), _softmax(logits, values, kind)
        found = (float(error(a, b).max(initial=0.0)) for a, b in ((other, out), (other_lse, lse)))
        worst = Lost(*map(max, worst, found))
    return worst


def _softmax(logits: Array, values: Array, kept: np.dtype[np.generic] | None = None) -> tuple[Array, Array]:
    """Softmax of rows times values, and its lse; each step rounded to a dtype, if one is given."""

    def rounded(x: Array) -> Array:
        return x if kept is None else x.astype(kept).astype(np.float64)

    logits = rounded(logits)
    top = logits.max(axis=1, initial=-np.inf)
    shift = np.where(np.isneginf(top), 0, top)
    weights = np.exp(logits - shift[:, None])
    total = weights.sum(axis=1)
    seen = np.where(total == 0, 1, total)
    return rounded(rounded(weights) @ values / seen[:, None]), np.where(total == 0, -np.inf, shift + np.log(seen))
