"""Layouts: how the positions of a sequence are dealt to shards, for any length and any number of shards.

Nothing is padded or truncated: runs differ by at most one position, and a shard may be empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from algorithms import unknown
from algorithms.ir.expr import Expr, Ints, ScheduleError, as_expr
from algorithms.ir.pieces import Piece, shards_of_pieces
from algorithms.ir.tokens import Block, Runs, Tokens

LAYOUTS = ("contiguous", "zigzag", "striped")  # of any sequence
KINDS = (*LAYOUTS, "documents")
PAGES = "pages:"  # and how many positions a page has
LARGEST_PAGE = 2**48


@dataclass(frozen=True, slots=True)
class Layout:
    """n positions, from `origin` on, dealt to p shards.

    contiguous: shard i holds one run. zigzag: of 2p runs it holds the i-th and the i-th from the end, which
    balances a causal mask. striped: it holds every p-th position from i on. pages:N: every p-th page of N positions,
    as caches are kept that are interleaved over ranks; the last page may be short. Pages of 1 are stripes. documents:
    of each of the `pieces` it holds a run from the front and one from the back, as in zigzag; what p does not divide
    goes to the next shards in turn, and who is dealt to first changes from piece to piece.
    """

    kind: str
    n: int
    p: int
    origin: int = 0
    page: int = 0  # of positions that stay together; 0 where the layout has none
    pieces: tuple[Piece, ...] = ()

    def __getitem__(self, i: Expr | int) -> Tokens:
        return Block(self, as_expr(i))

    __iter__ = None

    @property
    def even(self) -> bool:
        """Whether all shards have the same size."""
        return self.n % (2 * self.p if self.kind == "zigzag" else self.p * max(1, self.page)) == 0

    @property
    def runs_alike(self) -> bool:
        """Whether all runs of all shards have the same length."""
        return self.even and self.kind != "documents"

    def count(self, i: Ints) -> Ints:
        """How many positions shard i (any shape) holds."""
        n, p = self.n, self.p
        if self.page:
            rounds, rest = divmod(n, p * self.page)
            return np.asarray(rounds * self.page + np.clip(rest - i * self.page, 0, self.page))
        if self.kind == "documents":
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
        if self.kind == "documents":
            start, count = shards_of_pieces(self.pieces, p)
            return Runs(start[i], count[i], 1)
        if self.page:
            return self._runs_of_pages(i[..., None])
        chunks, total = (np.stack([i, 2 * p - 1 - i], -1), 2 * p) if self.kind == "zigzag" else (i[..., None], p)
        start, end = chunks * n // total, (chunks + 1) * n // total
        return Runs(self.origin + start, end - start, 1)

    def _runs_of_pages(self, i: Ints) -> Runs:
        """Few runs: one a page, or where pages are more than positions of a page, one for each place in a page."""
        around = self.p * self.page
        pages = max(1, -(-self.n // around))
        if pages < self.page:
            start = i * self.page + np.arange(pages) * around
            return Runs(self.origin + start, np.clip(self.n - start, 0, self.page), 1)
        start = i * self.page + np.arange(self.page)
        return Runs(self.origin + start, (self.n - start + around - 1) // around, around)

    def __str__(self) -> str:
        return f"{self.kind} {self.n}/{self.p}"


@lru_cache(maxsize=8)
def _counts(layout: Layout) -> Ints:
    return layout.count(np.arange(layout.p))


def layout(kind: str, n: int, p: int, origin: int = 0, pieces: Iterable[Piece] = ()) -> Layout:
    """Make a layout, refusing unknown kinds; without pieces, documents deals the whole as one."""
    if kind.startswith(PAGES):
        page = _page(kind)
        return Layout(f"{PAGES}{page}", n, p, origin, page)
    if kind not in KINDS:
        raise ScheduleError(unknown("layout", kind, KINDS, other=f"{PAGES}N"))
    if kind == "documents":
        return Layout(kind, n, p, origin, pieces=tuple(pieces) or (Piece(origin, n),))
    return Layout(kind, n, p, origin, page=1 if kind == "striped" else 0)


def _page(kind: str) -> int:
    """Positions of a page."""
    text = kind.removeprefix(PAGES)
    page = int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else 0
    if not 1 <= page <= LARGEST_PAGE:
        raise ScheduleError(f"layout {kind[:40]} must have from 1 to 2^48 tokens a page, as {PAGES}16")
    return page
