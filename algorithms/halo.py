"""Halo: how far around a ring of contiguous shards a mask reaches, and whose queries are ahead."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.ir import Attention, Expr
from algorithms.ir.tokens import Tokens


class Halo(NamedTuple):
    """How often keys are passed on, and which queries they are trimmed for before; None: for none, they are sent whole.

    What the next rank sees of a block holds what all ranks after it see: the further, the later their windows begin.
    So it is where all ranks have queries, and as many as keys.
    """

    hops: int
    ahead: Tokens | None


def halo(problem: Attention, i: Expr, p: int) -> Halo:
    """The halo of shard i of p, where shards are contiguous and the mask reaches back less than all the way."""
    mask, n = problem.mask, problem.key_len
    nested = problem.layout == "contiguous" and not problem.cached and n >= p and mask.causal
    if not nested or mask.reach >= n - 1:
        return Halo(p - 1, None)
    first = mask.interval(problem.queries(p).runs(np.arange(p)).start[:, 0]).first
    owner = ((first + 1) * p - 1) // n  # the shard that holds the first key that a shard's first query sees
    return Halo(int((np.arange(p) - owner).max()), problem.queries(p)[(i + 1) % p])
