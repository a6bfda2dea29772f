"""Rings, for the algorithms that have one: values passed around a ring, or around rings inside a ring.

`rings` are mesh axes and their sizes, the outermost first: [("ring", 8)], or [("outer", 4), ("inner", 8)]. A block
goes around the innermost ring; meanwhile the block that one started with is on its way along the ring outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from algorithms.ir import Partial, Value
from algorithms.ops.add import add
from algorithms.ops.attend import attend
from algorithms.ops.attend_backward import attend_backward
from algorithms.ops.merge import merge
from algorithms.ops.permute import permute

Rings = Sequence[tuple[str, int]]
Block = tuple[Value, ...]
Tile = Callable[..., tuple[Block, Block]]


def passing(*block: Value, rings: Rings, buffers: int = 2) -> Iterator[Block]:
    """Yield a rank's own block, then every other as it comes; a hop is written down once its block was used.

    Args:
        buffers: blocks of the innermost ring that can be held: as many as there are, where they are kept.
    """
    (axis, size), *inside = rings
    for step in range(size):
        if not inside:
            yield block
        ahead = shifted(*block, over=axis, buffers=2 if inside else buffers) if step + 1 < size else block
        if inside:
            yield from passing(*block, rings=inside, buffers=buffers)
        block = ahead


def attend_passing(q: Value, k: Value, v: Value, *, rings: Rings) -> Partial:
    """Attend queries that stay to keys that pass."""
    part = None
    for keys, values in passing(k, v, rings=rings):
        tile = attend(q, keys, values)
        part = tile if part is None else merge(part, tile)
    assert part is not None
    return part


def differentiate_passing(
    block: Block, tile: Tile, rings: Rings, lane: int = 0, stay: Block | None = None
) -> tuple[Block, Block]:
    """Differentiate tiles of a block that passes; return the sums that stay, and those that followed it home.

    In each ring gradients go all the way around, one hop behind their block: size hops, the last one home. Those that
    come from outside are added when the inner ring has brought its own home, so that they have a tour to arrive in.

    Args:
        tile: of a block, the gradients that stay and those that go with it.
        lane: of the gradients; a lane of their own lets blocks overtake them.
        stay: sums to go on with.
    """
    (axis, size), *inside = rings
    goes: Block | None = None
    for step in range(size):
        if inside:
            ahead = shifted(*block, over=axis) if step + 1 < size else block
            stay, more = differentiate_passing(block, tile, inside, lane, stay)
            goes, block = _home(summed(goes, more), axis, size, lane), ahead
        else:
            if goes is not None:
                block, goes = shifted(*block, over=axis), shifted(*goes, over=axis, lane=lane)
            rests, more = tile(*block)
            stay, goes = summed(stay, rests), summed(goes, more)
    assert stay is not None
    assert goes is not None
    return stay, goes if inside else _home(goes, axis, size, lane)


def of_keys(q: Value, do: Value, lse: Value, delta: Value) -> Tile:
    """The tile of keys and values that pass: dq stays, dk and dv go with them."""

    def tile(k: Value, v: Value) -> tuple[Block, Block]:
        dq, dk, dv = attend_backward(q, k, v, do, lse, delta)
        return (dq,), (dk, dv)

    return tile


def of_queries(k: Value, v: Value) -> Tile:
    """The tile of queries that pass with what belongs to them: dk and dv stay, dq goes with them."""

    def tile(q: Value, do: Value, lse: Value, delta: Value) -> tuple[Block, Block]:
        dq, dk, dv = attend_backward(q, k, v, do, lse, delta)
        return (dk, dv), (dq,)

    return tile


def summed(a: Block | None, b: Block) -> Block:
    """Add gradients to those so far, if there are any."""
    return b if a is None else add(a, b)


def _home(goes: Block, axis: str, size: int, lane: int) -> Block:
    return shifted(*goes, over=axis, lane=lane) if size > 1 else goes


def shifted(*xs: Value, over: str, lane: int = 0, buffers: int = 2) -> Block:
    """Pass values to the next of a ring."""
    moved = permute(*xs, over=over, shift=1, lane=lane, buffers=buffers)
    return moved if isinstance(moved, tuple) else (moved,)
