"""Layouts: how the positions of a sequence are dealt to shards, for any length and any number of shards.

Nothing is padded or truncated: runs differ by at most one position, and a shard may be empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from algorithms import unknown
from algorithms.ir.expr import Expr, Ints, ScheduleError, as_expr
from algorithms.ir.tokens import Block, Runs, Tokens

LAYOUTS = ("contiguous", "zigzag", "striped")


@dataclass(frozen=True, slots=True)
class Layout:
    """n positions, from `origin` on, dealt to p shards.

    contiguous: shard i holds one run. zigzag: of 2p runs it holds the i-th and the i-th from the end, which
    balances a causal mask. striped: it holds every p-th position from i on.
    """

    kind: str
    n: int
    p: int
    origin: int = 0

    def __getitem__(self, i: Expr | int) -> Tokens:
        return Block(self, as_expr(i))

    __iter__ = None

    @property
    def step(self) -> int:
        """Distance between neighbouring positions of a run."""
        return self.p if self.kind == "striped" else 1

    @property
    def even(self) -> bool:
        """Whether all shards have the same size."""
        return self.n % (2 * self.p if self.kind == "zigzag" else self.p) == 0

    def count(self, i: Ints) -> Ints:
        """How many positions shard i (any shape) holds."""
        n, p = self.n, self.p
        if self.kind == "striped":
            return np.asarray((n - i + p - 1) // p)
        if self.kind == "contiguous":
            return np.asarray((i + 1) * n // p - i * n // p)
        low = (i + 1) * n // (2 * p) - i * n // (2 * p)
        return np.asarray(low + (2 * p - i) * n // (2 * p) - (2 * p - 1 - i) * n // (2 * p))

    @property
    def counts(self) -> Ints:
        """How many positions each shard holds, (p,)."""
        return _counts(self)

    def runs(self, i: Ints) -> Runs:
        """The runs of shard i (any shape), along a new last dimension."""
        n, p = self.n, self.p
        if self.kind == "striped":
            return Runs((self.origin + i)[..., None], ((n - i + p - 1) // p)[..., None], p)
        chunks, total = (np.stack([i, 2 * p - 1 - i], -1), 2 * p) if self.kind == "zigzag" else (i[..., None], p)
        start, end = chunks * n // total, (chunks + 1) * n // total
        return Runs(self.origin + start, end - start, 1)


@lru_cache(maxsize=8)
def _counts(layout: Layout) -> Ints:
    return layout.count(np.arange(layout.p))


def layout(kind: str, n: int, p: int, origin: int = 0) -> Layout:
    """Make a layout, refusing unknown kinds."""
    if kind not in LAYOUTS:
        raise ScheduleError(unknown("layout", kind, LAYOUTS))
    return Layout(kind, n, p, origin)
