"""The bounds are sharp: each way in which distributed attention goes wrong, planted, breaks every one of them."""

from itertools import pairwise

import numpy as np
import pytest

from executor.kernels import backward, find, forward
from tests.executor.attention_cases import case, ratios, set_tiles

TILES, LAST, SCALED = forward.key_tiles, forward.last_visible, forward.scaled_queries


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
    return LAST(mask, rows) - 1


def one_key_too_many(mask, rows):
    return LAST(mask, rows) + 1


def scale_off_by_a_thousandth(q, span, head, scale, sizes):
    return SCALED(q, span, head, scale * 1.001, sizes)


MUTANTS = {
    "lost tile": ("key_tiles", lost_tile),
    "tile counted twice": ("key_tiles", tile_counted_twice),
    "stale key block": ("key_tiles", stale_key_block),
    "stale keys under fresh values": ("key_tiles", stale_keys_under_fresh_values),
    "unmasked diagonal": ("key_tiles", unmasked_diagonal),
    "one key too few": ("last_visible", one_key_too_few),
    "one key too many": ("last_visible", one_key_too_many),
    "scale off by a thousandth": ("scaled_queries", scale_off_by_a_thousandth),
}


@pytest.fixture
def tiles(monkeypatch):
    set_tiles(monkeypatch, side=16, longest=16)
    return monkeypatch


def diagonal_block(dtype):
    c = case(n=64, m=64, heads=(2, 1), dtype=dtype, mask="causal")
    return c._replace(rows=np.arange(64), cols=np.arange(64))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["numpy", "numba"])
@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_bound_catches_each_mutant(tiles, mutant, name, dtype):
    piece, broken = MUTANTS[mutant]
    for module in (forward, backward):
        tiles.setattr(module, piece, broken)

    found = ratios(find(name), diagonal_block(dtype))

    assert min(found.values()) > 1, found


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["numpy", "numba"])
@pytest.mark.usefixtures("tiles")
def test_the_same_block_without_a_mutant_is_exact(name, dtype):
    found = ratios(find(name), diagonal_block(dtype))
    assert max(found.values()) <= 1, found
