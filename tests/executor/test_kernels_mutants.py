"""The bounds are sharp: each way in which distributed attention goes wrong, planted, breaks every one of them."""

from itertools import pairwise

import numpy as np
import pytest

from algorithms.ir.mask import Interval, Mask
from executor.kernels import backward, find, forward
from tests.executor.attention_cases import case, ratios, set_tiles

TILES, INTERVAL, SCALED = forward.key_tiles, forward.interval_of, forward.scaled_queries
LOGITS, SIGHT, SLOPE = forward.to_logits, forward.sight_of, backward.slope_of_cap


def lost_tile(*args):
    tiles = list(TILES(*args))
    return tiles[:1] + tiles[2:]


def tile_counted_twice(*args):
    tiles = list(TILES(*args))
    return tiles[:2] + tiles[1:]


def stale_key_block(*args):
    tiles = list(TILES(*args))
    return tiles[:1] + [new._replace(k=old.k, v=old.v) for old, new in pairwise(tiles)]


def stale_keys_under_fresh_values(*args):
    tiles = list(TILES(*args))
    return tiles[:1] + [new._replace(k=old.k) for old, new in pairwise(tiles)]


def unmasked_diagonal(*args):
    return [tile._replace(mixed=False) for tile in TILES(*args)]


def one_key_too_few(mask, rows):
    first, last = INTERVAL(mask, rows)
    return Interval(first, last - 1)


def one_key_too_many(mask, rows):
    first, last = INTERVAL(mask, rows)
    return Interval(first, last + 1)


def first_key_lost(mask, rows):
    first, last = INTERVAL(mask, rows)
    return Interval(first + 1, last)


def key_before_the_first(mask, rows):
    first, last = INTERVAL(mask, rows)
    return Interval(first - 1, last)


def boundary_off_by_one(mask, rows):
    a, b, *rest = mask.documents
    return INTERVAL(Mask(mask.causal, mask.window, (a + 1, b - 1, *rest)), rows)


def slopes_of_the_heads_before(interval, rows, span, head, score, sizes):
    return SIGHT(interval, rows, span, head, score._replace(slopes=np.roll(score.slopes, 1)), sizes)


def no_bias(scores, sight, cols, softcap):
    LOGITS(scores, sight._replace(slopes=None), cols, softcap)


def distance_off_by_one(scores, sight, cols, softcap):
    LOGITS(scores, sight, cols + (cols > 20), softcap)  # by one for all is no other softmax


def no_cap(scores, sight, cols, softcap):
    LOGITS(scores, sight, cols, 0.0)


def cap_after_bias(scores, sight, cols, softcap):
    LOGITS(scores, sight, cols, 0.0)
    LOGITS(scores, sight._replace(slopes=None), cols, softcap)


def cap_forgotten_in_the_slope(scores, softcap, out):
    out[...] = 1
    return out


def scale_off_by_a_thousandth(q, span, head, scale, sizes):
    return SCALED(q, span, head, scale * 1.001, sizes)


MUTANTS = {
    "lost tile": ("key_tiles", lost_tile),
    "tile counted twice": ("key_tiles", tile_counted_twice),
    "stale key block": ("key_tiles", stale_key_block),
    "stale keys under fresh values": ("key_tiles", stale_keys_under_fresh_values),
    "unmasked diagonal": ("key_tiles", unmasked_diagonal),
    "one key too few": ("interval_of", one_key_too_few),
    "one key too many": ("interval_of", one_key_too_many),
    "scale off by a thousandth": ("scaled_queries", scale_off_by_a_thousandth),
}


WINDOW = {"window": "window:30"}
PACKED = {"documents": "documents:25+39", "documents, all inside": "full,documents:25+39"}
CHANGED = {"softcap": 1.5, "alibi": True}
OF_A_MASK = {  # mutant -> the masks whose edge it moves
    "first key lost": ("interval_of", first_key_lost, WINDOW | PACKED),
    "key before the first": ("interval_of", key_before_the_first, WINDOW | PACKED),
    "last key lost": ("interval_of", one_key_too_few, WINDOW | PACKED),
    "key after the last": ("interval_of", one_key_too_many, WINDOW | PACKED),
    "boundary off by one": ("interval_of", boundary_off_by_one, PACKED),
    "unmasked edge": ("key_tiles", unmasked_diagonal, WINDOW | PACKED),
}
OF_A_SCORE = {
    "slope of another head": ("sight_of", slopes_of_the_heads_before),
    "no bias": ("to_logits", no_bias),
    "distance off by one": ("to_logits", distance_off_by_one),
    "no cap": ("to_logits", no_cap),
    "cap after bias": ("to_logits", cap_after_bias),
}


@pytest.fixture
def tiles(monkeypatch):
    set_tiles(monkeypatch, side=16, longest=16)
    return monkeypatch


def diagonal_block(dtype, mask="causal", **changes):
    c = case(n=64, m=64, heads=(2, 1), dtype=dtype, mask=mask, **changes)
    return c._replace(rows=np.arange(64), cols=np.arange(64))


def plant(patch, piece, broken):
    for module in (forward, backward):
        patch.setattr(module, piece, broken)


BOTH = pytest.mark.parametrize("name", ["numpy", "numba"])
DTYPES = pytest.mark.parametrize("dtype", ["float64", "float32"])


@DTYPES
@BOTH
@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_bound_catches_each_mutant(tiles, mutant, name, dtype):
    plant(tiles, *MUTANTS[mutant])

    found = ratios(find(name), diagonal_block(dtype))

    assert min(found.values()) > 1, found


@DTYPES
@BOTH
@pytest.mark.parametrize(
    "mutant, mask", [(m, mask) for m, (_, _, masks) in OF_A_MASK.items() for mask in masks.values()]
)
def test_each_bound_catches_each_moved_edge_of_a_mask(tiles, mutant, mask, name, dtype):
    plant(tiles, *OF_A_MASK[mutant][:2])

    found = ratios(find(name), diagonal_block(dtype, mask))

    assert min(found.values()) > 1, found


@DTYPES
@BOTH
@pytest.mark.parametrize("mutant", OF_A_SCORE)
def test_each_bound_catches_each_wrong_logit(tiles, mutant, name, dtype):
    plant(tiles, *OF_A_SCORE[mutant])

    found = ratios(find(name), diagonal_block(dtype, **CHANGED))

    assert min(found.values()) > 1, found


@DTYPES
@BOTH
def test_a_cap_forgotten_in_the_backward_pass_shows_where_it_is(tiles, name, dtype):
    tiles.setattr(backward, "slope_of_cap", cap_forgotten_in_the_slope)

    found = ratios(find(name), diagonal_block(dtype, **CHANGED))

    assert min(found["dq"], found["dk"]) > 1, found
    assert max(found["out"], found["lse"], found["dv"]) <= 1, found


@DTYPES
@BOTH
@pytest.mark.parametrize("mask", ["causal", *WINDOW.values(), *PACKED.values()])
@pytest.mark.parametrize("changes", [{}, CHANGED], ids=["plain", "capped and biased"])
@pytest.mark.usefixtures("tiles")
def test_the_same_block_without_a_mutant_is_exact(changes, mask, name, dtype):
    found = ratios(find(name), diagonal_block(dtype, mask, **changes))
    assert max(found.values()) <= 1, found
