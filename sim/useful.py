"""Useful: how much of the keys and values that ranks receive is seen by some query there."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from algorithms.ir.mask import FULL, Interval
from algorithms.ir.schedule import Op, Schedule
from algorithms.ir.seen import covered, view
from algorithms.ir.tokens import Tokens
from algorithms.ops.permute import senders

MOST = 1 << 22  # runs of tiles of ranks looked at: of more, nothing is said


@dataclass
class Tile:
    """Keys that came by an op, with their values.

    Attributes:
        own: of the keys, those that the rank had itself; None: none. nbytes: of a row, by value. queries: the tokens of
            those that attend them.
    """

    keys: Tokens
    came: Op
    own: Tokens | None
    nbytes: dict[int, int] = field(default_factory=dict)
    queries: dict[int, Tokens] = field(default_factory=dict)


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
    """Keys and values that came to be attended, each once, however often they are."""
    source = {v.id: op for op in schedule.ops for v in op.outputs}
    found: dict[tuple[int, int], Tile] = {}
    for op in schedule.ops:
        if op.kind not in ("attend", "attend_backward"):
            continue
        for v in op.inputs[1:3]:
            came, queries = source[v.id], op.inputs[0].tokens
            if came.stream is not None:
                own = None if came.kind == "permute" else came.inputs[came.outputs.index(v)].tokens
                tile = found.setdefault((id(v.tokens), came.id), Tile(v.tokens, came, own))
                tile.nbytes[v.id], tile.queries[id(queries)] = v.type.row_nbytes, queries
    return list(found.values())


def _bytes(schedule: Schedule, tile: Tile) -> tuple[int, int]:
    """Bytes that all ranks together receive, and those of them that they see."""
    mesh, grid = schedule.mesh, schedule.mesh.grid()
    views = [view(schedule.problem.mask, tokens.runs(grid)) for tokens in tile.queries.values()]
    wide = [[np.broadcast_to(x, (*mesh.shape, x.shape[-1])) for x in same] for same in zip(*views, strict=True)]
    looking = Interval(*(np.concatenate(same, axis=-1) for same in wide))
    others = senders(tile.came, mesh) != np.arange(mesh.size) if tile.own is None else np.ones(mesh.size, dtype=bool)
    got, useful = np.zeros((2, mesh.size), dtype=np.int64)
    for sign, tokens in ((1, tile.keys), (-1, tile.own)):
        if tokens is not None:
            got += sign * mesh.spread(tokens.count.at(grid))
            useful += sign * mesh.spread(covered(tokens.runs(grid), looking))
    row = sum(tile.nbytes.values())
    return int(got[others].sum()) * row, int(useful[others].sum()) * row
