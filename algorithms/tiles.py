"""Tiles, for the algorithms that work through a tile of blocks while these arrive: keys one way, queries the other.

A rank's tile has a blocks of queries, which pass along one ring, and b of keys, which pass along another and are kept.
Its own queries meet each block of keys as it comes. Then the others' queries come, each to meet all keys; what they
have gathered follows them, one hop behind, and ends at home.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from algorithms.ir import Partial, Value
from algorithms.ops.attend import attend
from algorithms.ops.cut_rows import cut_rows
from algorithms.ops.join import join
from algorithms.ops.merge import merge
from algorithms.rings import Block, Tile, of_keys, passing, shifted, summed

Axis = tuple[str, int]


def attend_tile(q: Value, k: Value, v: Value, queries: Axis, keys: Axis, whole: bool = False) -> Partial:
    """Attend a tile's queries to its keys, and return what a rank's own queries have seen in all tiles.

    Args:
        queries, keys: the ring that queries pass along, and the one of keys, each with its size.
        whole: others' queries attend to all keys in one call, not block by block.
    """
    across, a = queries
    blocks = list[Block]()
    own = _attended(q, _keeping(passing(k, v, rings=[keys], buffers=kept(queries, keys)), blocks))
    if whole and a > 1:
        blocks = [join(*blocks)]
    follows: Partial | None = None
    for _ in range(1, a):
        (q,) = shifted(q, over=across)
        if follows is not None:
            follows = Partial(*shifted(*follows, over=across))
        row = _attended(q, blocks)
        follows = row if follows is None else merge(follows, row)
    return own if follows is None else merge(own, Partial(*shifted(*follows, over=across)))


def _attended(q: Value, row: Iterable[Block]) -> Partial:
    """Attend queries to one block of keys after another."""
    part: Partial | None = None
    for block in row:
        tile = attend(q, *block)
        part = tile if part is None else merge(part, tile)
    assert part is not None
    return part


def differentiate_tile(
    side: Block, k: Value, v: Value, queries: Axis, keys: Axis, whole: bool = False
) -> tuple[Block, Block]:
    """Differentiate a tile, and return dq of a rank's own queries, and dk, dv of its own keys.

    Gradients of keys are summed where the keys are kept, until the last queries are there: then they go around, one hop
    behind the tiles. With one block of queries that is the backward pass of a ring.

    Args:
        side: what passes of queries: q, do, lse, delta. queries, keys, whole: as in attend_tile; the last queries meet
            keys block by block all the same.
    """
    (across, a), (_, b) = queries, keys
    blocks, sums = list[Block](), list[Block]()
    own: Block | None = None
    follows: Block | None = None
    for x in range(a):
        if x:
            side = shifted(*side, over=across)
        if follows is not None:
            follows = shifted(*follows, over=across)
        if whole and 0 < x < a - 1 and len(blocks) > 1:
            blocks, sums = [join(*blocks)], [join(*sums)]
        if x == a - 1 and 0 < len(blocks) < b:
            blocks, sums = cut_rows(*blocks[0], parts=b), cut_rows(*sums[0], parts=b)
        row = blocks if x else _keeping(passing(k, v, rings=[keys], buffers=kept(queries, keys)), blocks)
        if x + 1 < a:
            dq, sums = _resting(of_keys(*side), row, sums)
        else:
            dq, home = _going_home(of_keys(*side), row, sums, keys)
        own, follows = (own, summed(follows, dq)) if own is not None else (dq, None)
    assert own is not None
    return own if follows is None else summed(own, shifted(*follows, over=across)), home


def _resting(tile: Tile, row: Iterable[Block], sums: Sequence[Block]) -> tuple[Block, list[Block]]:
    """Differentiate by all blocks of keys; return dq, and each block's sums with this row."""
    dq: Block | None = None
    found: list[Block] = []
    for y, block in enumerate(row):
        one, two = tile(*block)
        dq = summed(dq, one)
        found.append(summed(sums[y] if sums else None, two))
    assert dq is not None
    return dq, found


def _going_home(tile: Tile, row: Iterable[Block], sums: Sequence[Block], keys: Axis) -> tuple[Block, Block]:
    """Differentiate by all blocks of keys, the last to do so; return dq, and what the ring brought to own keys."""
    dq: Block | None = None
    home: Block | None = None
    for y, block in enumerate(row):
        if home is not None:
            home = shifted(*home, over=keys[0])
        one, two = tile(*block)
        dq = summed(dq, one)
        home = summed(home, summed(sums[y] if sums else None, two))
    assert dq is not None
    assert home is not None
    return dq, shifted(*home, over=keys[0]) if keys[1] > 1 else home


def _keeping(arriving: Iterable[Block], blocks: list[Block]) -> Iterator[Block]:
    for block in arriving:
        blocks.append(block)
        yield block


def kept(queries: Axis, keys: Axis) -> int:
    """Buffers for blocks of keys: all where there are more queries to come, else those of a ring."""
    return max(2, keys[1]) if queries[1] > 1 else 2
