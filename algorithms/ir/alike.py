"""Alike: which ranks have tiles of equal counts, told from the numbers of their blocks alone.

A tile of block a's queries and block b's keys of one layout is known, up to shifts that no count sees, by which of
a and b comes first and by how many tokens each run of the two holds. So a ring's step has a handful of distinct
tiles however many ranks there are, and only one rank of each needs to be worked out.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from algorithms.ir.expr import Coords, Ints
from algorithms.ir.layout import Layout
from algorithms.ir.mask import FULL, Mask
from algorithms.ir.tokens import Block, Gather, Tokens

Codes = NDArray[np.int8]
LENGTHS = 4  # combinations of the lengths of a shard's runs: two runs, each short or long by one

MOST = 1 << 22  # pairs of blocks looked at, on all ranks together
SHORT = 4  # tokens of a block of two runs, neither of which is of one token


def alike(mask: Mask, rows: Tokens, cols: Tokens, coords: Coords) -> Codes | None:
    """Return a small number a rank, or one for all: where it is equal, so are the counts of the tile.

    None where no such number is known: of a window or of documents it matters how far a is from b, and where they are.
    """
    if not isinstance(rows, Block) or not isinstance(cols, Block) or not mask.plain or rows.layout.kind == "documents":
        return None
    if rows.layout != cols.layout:
        return None
    if mask == FULL and rows.layout.even:
        return np.zeros((), np.int8)
    a, b = rows.index.at(coords), cols.index.at(coords)
    order: Codes = (a >= b).view(np.int8) + (a > b).view(np.int8)
    if rows.layout.even:
        return order
    length = lengths(rows.layout)
    return np.asarray((order * np.int8(LENGTHS) + length.take(a)) * np.int8(LENGTHS) + length.take(b))


def orders(mask: Mask, rows: Tokens, cols: Tokens, coords: Coords) -> tuple[object, Ints] | None:
    """Of gathered blocks, what the counts of the tile depend on: on all ranks, and on each, an open grid.

    Blocks of one size make three kinds of pair, by which of the two comes first, so it matters how many there are of
    each. A run of one token is no such kind: joined to its neighbour it is cut as it was not alone.
    """
    queries, keys = _gathered(rows, coords), _gathered(cols, coords)
    if queries is None or keys is None or queries[0] != keys[0] or not mask.plain:
        return None
    (dealt, a), (_, b) = queries, keys
    pairs = a.shape[-1] * b.shape[-1]
    many = pairs * prod(np.broadcast_shapes(a.shape[:-1], b.shape[:-1])) > MOST
    if many or not dealt.runs_alike or dealt.n < SHORT * dealt.p:
        return None
    every, a, b = (dealt, a.shape[-1], b.shape[-1]), a[..., :, None], b[..., None, :]
    after, same = (np.count_nonzero(x, axis=(-2, -1)) for x in (a > b, a == b))
    return every, np.zeros((), np.int64) if mask == FULL else np.asarray(after * (pairs + 1) + same)


def _gathered(tokens: Tokens, coords: Coords) -> tuple[Layout, Ints] | None:
    """The layout of a block, or of gathered ones, and their numbers, along a new last dimension."""
    if isinstance(tokens, Block):
        return tokens.layout, tokens.index.at(coords)[..., None]
    found = _gathered(tokens.inner, tokens.inside(coords)) if isinstance(tokens, Gather) else None
    if found is None or not isinstance(tokens, Gather):
        return None
    dealt, numbers = found
    lead = np.broadcast_shapes(numbers.shape[:-1], (tokens.members,))
    return dealt, np.broadcast_to(numbers, (*lead, numbers.shape[-1])).reshape(*lead[:-1], -1)


@lru_cache(maxsize=8)
def lengths(layout: Layout) -> Codes:
    """Return a number below LENGTHS a shard, (p,): where it is equal, so are the lengths of all its runs."""
    i, base = np.arange(layout.p), layout.n // layout.p
    if layout.page > 1:  # a page more, a part of one, or none: where the last round of pages ends
        extra = layout.count(i) - layout.n // (layout.p * layout.page) * layout.page
        return np.asarray((extra > 0).astype(np.int8) + (extra == layout.page), np.int8)
    if layout.kind == "zigzag":
        base = layout.n // (2 * layout.p)
        first = (i + 1) * layout.n // (2 * layout.p) - i * layout.n // (2 * layout.p)
        return np.asarray(2 * (first - base) + (layout.count(i) - first - base), np.int8)
    return np.asarray(layout.count(i) - base, np.int8)
