"""Merge attention over some keys with attention over others, exactly.

    M = max(l1, l2), or 0 when both are -inf;  w_i = exp(l_i - M);  W = w1 + w2
    out = (w1 o1 + w2 o2) / W;  lse = M + log W

(0, -inf), a row that saw no key, is the identity: its weight is exp(-inf) = 0. The form with a sigmoid of
l2 - l1 gives NaN where both are -inf.
"""

import math
from types import ModuleType
from typing import Any

import numpy


def merge(out1: Any, lse1: Any, out2: Any, lse2: Any, xp: ModuleType = numpy) -> tuple[Any, Any]:
    """Return the partial state over the keys of both, computed in float64, in the dtypes of the first.

    Float64 whatever the dtype of the state, or the error would grow with the number of ranks.

    Shapes:
        out (n, Hq, Dv), lse (n, Hq), arrays of the namespace `xp` (Python array API standard).
    """
    o1, l1, o2, l2 = (xp.asarray(x, dtype=xp.float64) for x in (out1, lse1, out2, lse2))
    top = xp.maximum(l1, l2)
    top = xp.where(top == -math.inf, xp.zeros_like(top), top)
    w1, w2 = xp.exp(l1 - top), xp.exp(l2 - top)
    total = w1 + w2
    seen = xp.where(total == 0, xp.ones_like(total), total)
    out = (w1 / seen)[..., None] * o1 + (w2 / seen)[..., None] * o2
    lse = xp.where(total == 0, xp.full_like(total, -math.inf), top + xp.log(seen))
    return xp.asarray(out, dtype=out1.dtype), xp.asarray(lse, dtype=lse1.dtype)
