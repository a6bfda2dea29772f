"""Alike: which ranks have tiles of equal counts, told from the numbers of their blocks alone.

A tile of block a's queries and block b's keys of one layout is known, up to shifts that no count sees, by which of
a and b comes first and by how many tokens each run of the two holds. So a ring's step has a handful of distinct
tiles however many ranks there are, and only one rank of each needs to be worked out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from algorithms.ir.expr import Coords, Ints
from algorithms.ir.layout import LAYOUTS, Layout
from algorithms.ir.mask import FULL, Mask
from algorithms.ir.tokens import Block, Tokens

LENGTHS = 4  # combinations of the lengths of a shard's runs: two runs, each short or long by one


def alike(mask: Mask, rows: Tokens, cols: Tokens, coords: Coords) -> Ints | None:
    """Return a small number a rank, or one for all: where it is equal, so are the counts of the tile.

    None where no such number is known: of a window or of documents it matters how far a is from b, and where they are.
    """
    if not isinstance(rows, Block) or not isinstance(cols, Block) or not mask.plain or rows.layout.kind not in LAYOUTS:
        return None
    if replace(rows.layout, n=0) != replace(cols.layout, n=0) or rows.layout.n != cols.layout.n:
        return None
    if mask == FULL and rows.layout.even:
        return np.zeros((), np.int64)
    a, b = rows.index.at(coords), cols.index.at(coords)
    order: Ints = (a >= b).view(np.int8) + (a > b).view(np.int8)  # type: ignore[assignment]  # as short as it is
    if rows.layout.even:
        return order
    return (order.astype(np.int64) * LENGTHS + lengths(rows.layout, a)) * LENGTHS + lengths(cols.layout, b)


def lengths(layout: Layout, i: Ints) -> Ints:
    """Return a number below LENGTHS: where it is equal, so are the lengths of all runs of shard i."""
    if layout.kind != "zigzag":
        return layout.count(i) - layout.n // layout.p
    first = (i + 1) * layout.n // (2 * layout.p) - i * layout.n // (2 * layout.p)
    base = layout.n // (2 * layout.p)
    return np.asarray(2 * (first - base) + (layout.count(i) - first - base))
