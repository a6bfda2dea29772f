"""Pieces: parts of a sequence, each dealt to shards by itself, from both of its ends."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from algorithms.ir.expr import Ints


class Piece(NamedTuple):
    """Part of a sequence that is dealt by itself."""

    start: int
    length: int


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
def shards_of_pieces(pieces: tuple[Piece, ...], p: int) -> tuple[Ints, Ints]:
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
