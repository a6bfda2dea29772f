"""Layouts: how the positions of a sequence are dealt to shards, for any length and any number of shards.

Nothing is padded or truncated: runs differ by at most one position, and a shard may be empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from algorithms import unknown
from algorithms.ir.expr import Expr, Ints, ScheduleError, as_expr
from algorithms.ir.tokens import Block, Runs, Tokens

LAYOUTS = ("contiguous", "zigzag", "striped")  # of any sequence
KINDS = (*LAYOUTS, "documents")


class Piece(NamedTuple):
    """Part of a sequence that is dealt by itself."""

    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Layout:
    """n positions, from `origin` on, dealt to p shards.

    contiguous: shard i holds one run. zigzag: of 2p runs it holds the i-th and the i-th from the end, which
    balances a causal mask. striped: it holds every p-th position from i on. documents: of each of the `pieces` it
    holds a run from the front and one from the back, as in zigzag; what p does not divide goes to the next shards in
    turn, and who is dealt to first changes from piece to piece.
    """

    kind: str
    n: int
    p: int
    origin: int = 0
    pieces: tuple[Piece, ...] = ()

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
        if self.kind in ("striped", "documents"):
            return np.asarray((n - i + p - 1) // p)
        if self.kind == "contiguous":
            return np.asarray((i + 1) * n // p - i * n // p)
        low = (i + 1) * n // (2 * p) - i * n // (2 * p)
        return np.asarray(low + (2 * p - i) * n // (2 * p) - (2 * p - 1 - i) * n // (2 * p))

    def runs(self, i: Ints) -> Runs:
        """The runs of shard i (any shape), along a new last dimension."""
        n, p = self.n, self.p
        if self.kind == "documents":
            start, count = _shards_of_pieces(self.pieces, p)
            return Runs(start[i], count[i], 1)
        if self.kind == "striped":
            return Runs((self.origin + i)[..., None], ((n - i + p - 1) // p)[..., None], p)
        chunks, total = (np.stack([i, 2 * p - 1 - i], -1), 2 * p) if self.kind == "zigzag" else (i[..., None], p)
        start, end = chunks * n // total, (chunks + 1) * n // total
        return Runs(self.origin + start, end - start, 1)

    def __str__(self) -> str:
        return f"{self.kind} {self.n}/{self.p}"


def layout(kind: str, n: int, p: int, origin: int = 0, pieces: Iterable[Piece] = ()) -> Layout:
    """Make a layout, refusing unknown kinds; without pieces, documents deals the whole as one."""
    if kind not in KINDS:
        raise ScheduleError(unknown("layout", kind, KINDS))
    whole = (Piece(origin, n),) if kind == "documents" else ()
    return Layout(kind, n, p, origin, tuple(pieces) or whole)


class _Dealt(NamedTuple):
    """How each piece is dealt to p shards."""

    start: Ints
    end: Ints
    half: Ints
    """Tokens of a shard's shorter run, but for the rest that p does not divide."""
    odd: Ints
    """1 where every shard has one more in one run than in the other."""
    rest: Ints
    """Tokens left over, one each for the shards from `turn` on, and round again."""
    turn: Ints
    first: Ints
    """The shard that has the first place."""


def _dealt(pieces: tuple[Piece, ...], p: int) -> _Dealt:
    start, length = np.array(pieces, dtype=np.int64).T
    share, rest = length // p, length % p
    number = np.arange(len(start))
    first = (number // 2 + number // (2 * p)) % p  # not in step with `turn`, whatever the lengths
    return _Dealt(start, start + length, share // 2, share % 2, rest, (np.cumsum(rest) - rest) % p, first)


@lru_cache(maxsize=8)
def _shards_of_pieces(pieces: tuple[Piece, ...], p: int) -> tuple[Ints, Ints]:
    """Start and count of two runs a piece, (p, 2 * pieces): at a shard's place from the front, and from the back.

    Every second piece is dealt from the other end, so that two tokens in the middle balance each other.
    """
    of, i = _dealt(pieces, p), np.arange(p)[:, None]
    place, more = (i - of.first) % p, np.where((i - of.turn) % p < of.rest, 1, 0)
    before = _in_turn(of, p, of.first + place) - _in_turn(of, p, of.first)  # of the rest, at earlier places
    turned = np.arange(len(of.start)) % 2 == 1
    place = np.where(turned, p - 1 - place, place)
    before = np.where(turned, of.rest - before - more, before)
    front, back = of.half + np.maximum(of.odd, more), of.half + np.minimum(of.odd, more)
    first = of.start + place * (of.half + of.odd) + np.where(of.odd, 0, before)
    last = of.end - (place + 1) * of.half - np.where(of.odd, before + more, 0)
    return np.stack([first, last], -1).reshape(p, -1), np.stack([front, back], -1).reshape(p, -1)


def _in_turn(of: _Dealt, p: int, shards: Ints) -> Ints:
    """How many of the first shards, counted round and round, have one of the rest."""
    rounds, some = shards // p, shards % p
    own = np.clip(some - of.turn, 0, of.rest) + np.clip(np.minimum(some, of.turn + of.rest - p), 0, None)
    return np.asarray(rounds * of.rest + own)
