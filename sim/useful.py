"""Useful: how much of the keys and values that ranks receive is seen by some query there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms.ir.mask import FULL
from algorithms.ir.schedule import Op, Schedule
from algorithms.ir.seen import covered, view
from algorithms.ir.tokens import Tokens
from algorithms.ops.permute import senders

MOST = 1 << 22  # runs of tiles of ranks looked at: of more, nothing is said


class Tile(NamedTuple):
    """Keys that came by an op, with their values, and the queries that attend them."""

    keys: Tokens
    queries: Tokens
    came: Op
    own: Tokens | None
    """Of the keys, those that the rank had itself."""
    row_nbytes: int


def useful_share(schedule: Schedule) -> float | None:
    """Bytes of received keys and values that some query sees where they are attended, of all that are received.

    None where none are received, or so many that they are not looked at. What a rank passes on without attending it
    counts nothing, as what it sends does not either.
    """
    tiles = _tiles(schedule)
    if not tiles:
        return None
    if schedule.problem.mask == FULL:
        return 1.0
    runs = tiles[0].keys.runs(schedule.mesh.grid()).start.shape[-1]
    if len(tiles) * schedule.mesh.size * runs > MOST:
        return None
    got, seen = (sum(parts) for parts in zip(*(_bytes(schedule, tile) for tile in tiles), strict=True))
    return seen / got if got else None


def _tiles(schedule: Schedule) -> list[Tile]:
    """Keys and values that came to be attended, each once: not when they are attended again, or by more queries."""
    source = {v.id: op for op in schedule.ops for v in op.outputs}
    found: dict[tuple[int, int], Tile] = {}
    met = set[int]()
    for op in schedule.ops:
        if op.kind not in ("attend", "attend_backward"):
            continue
        for v in op.inputs[1:3]:
            came = source[v.id]
            if came.stream is None or v.id in met:
                continue
            met.add(v.id)
            own = None if came.kind == "permute" else came.inputs[came.outputs.index(v)].tokens
            tile = Tile(v.tokens, op.inputs[0].tokens, came, own, v.type.row_nbytes)
            before = found.get((id(v.tokens), came.id))
            found[id(v.tokens), came.id] = tile if before is None else _both(before, tile)
    return list(found.values())


def _both(keys: Tile, values: Tile) -> Tile:
    return keys._replace(row_nbytes=keys.row_nbytes + values.row_nbytes)


def _bytes(schedule: Schedule, tile: Tile) -> tuple[int, int]:
    """Bytes that all ranks together receive, and those of them that they see."""
    mesh, grid = schedule.mesh, schedule.mesh.grid()
    looking = view(schedule.problem.mask, tile.queries.runs(grid))
    others = senders(tile.came, mesh) != np.arange(mesh.size) if tile.own is None else np.ones(mesh.size, dtype=bool)
    got, useful = np.zeros((2, mesh.size), dtype=np.int64)
    for sign, tokens in ((1, tile.keys), (-1, tile.own)):
        if tokens is not None:
            got += sign * mesh.spread(tokens.count.at(grid))
            useful += sign * mesh.spread(covered(tokens.runs(grid), looking))
    return int(got[others].sum()) * tile.row_nbytes, int(useful[others].sum()) * tile.row_nbytes
