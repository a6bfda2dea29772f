"""Alike: blocks of one layout whose order and lengths agree make tiles with the same counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ir.alike import alike, orders
from algorithms.ir.expr import Coord
from algorithms.ir.layout import LAYOUTS, layout
from algorithms.ir.mask import CAUSAL, FULL, Mask
from algorithms.ir.pairs import count_pairs
from algorithms.ir.tokens import Block, gather

KINDS = st.sampled_from([*LAYOUTS, "pages:2", "pages:5"])
PLAIN = st.sampled_from([FULL, CAUSAL])


@given(PLAIN, KINDS, st.integers(0, 60), st.integers(1, 9), st.integers(0, 8))
def test_tiles_that_are_alike_have_equal_counts(mask, kind, n, p, shift):
    deal, i, grid = layout(kind, n, p), Coord("i", p), {"i": np.arange(p)}
    rows, cols = Block(deal, i), Block(deal, (i - shift) % p)

    code = np.broadcast_to(alike(mask, rows, cols, grid), p)

    queries, keys = rows.runs(grid), cols.runs(grid)
    counts = (*count_pairs(mask, queries, keys), queries.count.sum(-1), keys.count.sum(-1))
    for count in counts:
        wide = np.broadcast_to(count, p)
        for one in np.unique(code):
            assert len(set(wide[code == one].tolist())) == 1


@given(PLAIN, KINDS, st.integers(4, 40), st.integers(1, 4), st.integers(1, 3), st.integers(0, 8), st.booleans())
def test_tiles_of_gathered_blocks_that_are_alike_have_equal_counts(mask, kind, each, w, u, shift, apart):
    # as in usp: the blocks that a ring place gathers are w apart, or neighbours
    i, a, grid = Coord("i", w), Coord("a", u), {"i": np.arange(w)[:, None], "a": np.arange(u)[None, :]}
    deal, moved = layout(kind, 10 * each * w * u, w * u), (i - shift) % w
    queries, keys = (gather(Block(deal, a * w + n if apart else n * u + a), {"a": u}) for n in (i, moved))

    for rows, cols in ((queries, keys), (queries, Block(deal, i * u)), (Block(deal, moved * u), keys)):
        _, code = orders(mask, rows, cols, grid)
        counts = count_pairs(mask, rows.runs(grid), cols.runs(grid))
        wide = [np.broadcast_to(x, (w, u)) for x in (code, *counts)]
        for one in np.unique(wide[0]):
            assert len({(int(x), int(y)) for x, y in zip(*(x[wide[0] == one] for x in wide[1:]), strict=True)}) == 1


@pytest.mark.parametrize("n", [67, 12, 4])
def test_gathered_blocks_of_uneven_lengths_or_of_few_tokens_are_looked_at_one_by_one(n):
    i, grid = Coord("i", 4), {"i": np.arange(4)}
    block = Block(layout("contiguous", n, 4), i)
    assert orders(CAUSAL, block, gather(block, {"i": 4}), grid) is None


def test_a_ring_has_three_kinds_of_tile_at_most():
    i, grid = Coord("i", 1000), {"i": np.arange(1000)}
    deal = layout("zigzag", 64000, 1000)
    assert set(alike(CAUSAL, Block(deal, i), Block(deal, (i - 3) % 1000), grid)) == {0, 2}
    assert alike(FULL, Block(deal, i), Block(deal, (i - 3) % 1000), grid).ndim == 0


@pytest.mark.parametrize("other", [layout("zigzag", 64, 4), layout("contiguous", 65, 4), layout("contiguous", 64, 2)])
def test_blocks_of_different_layouts_are_looked_at_one_by_one(other):
    i, grid = Coord("i", 4), {"i": np.arange(4)}
    block = Block(layout("contiguous", 64, 4), i)
    assert alike(CAUSAL, block, Block(other, i), grid) is None
    assert alike(CAUSAL, block, gather(block, {"i": 4}), grid) is None


@pytest.mark.parametrize("mask", [Mask(True, 5), Mask(True, 0, (40, 24)), Mask(False, 0, (40, 24))])
def test_where_it_matters_how_far_apart_blocks_are_they_are_looked_at_one_by_one(mask):
    i, grid = Coord("i", 4), {"i": np.arange(4)}
    block = Block(layout("contiguous", 64, 4), i)
    assert alike(mask, block, block, grid) is None
