"""Useful: how much of the keys and values that ranks receive is seen by some query there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from algorithms.ir.expr import Coords
from algorithms.ir.mask import FULL, Interval
from algorithms.ir.schedule import Op, Schedule
from algorithms.ir.seen import apart, inside, view
from algorithms.ir.tokens import Tokens
from algorithms.ops.permute import senders
from sim.state import Bools

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
    got, seen = 0, 0
    for alike in _groups(schedule, tiles):
        received, useful = _bytes(schedule, alike)
        got, seen = got + received, seen + useful
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


def _groups(schedule: Schedule, tiles: list[Tile]) -> Iterable[list[Tile]]:
    """Tiles that meet the same queries and came the same way, as all of a ring do."""
    found: dict[tuple[object, ...], list[Tile]] = {}
    for tile in tiles:
        way = (tile.came.over, id(tile.came.params["origin"])) if tile.own is None else ()
        found.setdefault((*tile.queries, way), []).append(tile)
    return found.values()


def _bytes(schedule: Schedule, alike: list[Tile]) -> tuple[int, int]:
    """Bytes of a group of tiles that all ranks together receive, and those of them that they see."""
    mesh, grid = schedule.mesh, schedule.mesh.grid()
    looking, (got, useful) = _looking(schedule, alike[0].queries.values(), grid), np.zeros((2, *mesh.shape), np.int64)
    for tile in alike:
        row = sum(tile.nbytes.values())
        for sign, tokens in ((row, tile.keys), (-row, tile.own)):
            if tokens is not None:
                runs = tokens.runs(grid)
                got += sign * runs.count.sum(-1)
                useful += sign * inside(runs, looking)
    others = _others(schedule, alike[0])
    return int(got[others].sum()), int(useful[others].sum())


def _looking(schedule: Schedule, queries: Iterable[Tokens], grid: Coords) -> Interval:
    """What queries see, in intervals that do not overlap."""
    mesh = schedule.mesh
    views = [view(schedule.problem.mask, tokens.runs(grid)) for tokens in queries]
    wide = [[np.broadcast_to(x, (*mesh.shape, x.shape[-1])) for x in same] for same in zip(*views, strict=True)]
    return apart(Interval(*(np.concatenate(same, axis=-1) for same in wide)))


def _others(schedule: Schedule, tile: Tile) -> Bools:
    """The ranks that receive from another, or of a collective all, on the mesh."""
    mesh = schedule.mesh
    if tile.own is not None:
        return np.ones(mesh.shape, dtype=bool)
    others: Bools = senders(tile.came, mesh) != np.arange(mesh.size)
    return others.reshape(mesh.shape)
