"""Useful: how much of the keys and values that ranks receive is seen by some query there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from algorithms.ir.expr import Ints
from algorithms.ir.mask import FULL
from algorithms.ir.schedule import Op, Schedule, Value
from algorithms.ir.seen import Seen
from algorithms.ir.tokens import Tokens
from algorithms.ops.permute import senders

MOST = 1 << 18  # tiles of ranks looked at: of more, nothing is said


def useful_share(schedule: Schedule) -> float | None:
    """Bytes of received keys and values that some query sees where they are attended, of all that are received.

    None where none are received, or so many that they are not looked at. What a rank passes on without attending it
    counts nothing, as what it sends does not either.
    """
    tiles = list(_received(schedule))
    if not tiles:
        return None
    if schedule.problem.mask == FULL:
        return 1.0
    if len(tiles) * schedule.mesh.size > MOST:
        return None
    got, seen = (sum(parts) for parts in zip(*(_bytes(schedule, *tile) for tile in tiles), strict=True))
    return seen / got if got else None


def _received(schedule: Schedule) -> Iterator[tuple[Value, Value, Op]]:
    """Keys or values, the queries that attend them, and the op that they came by, each once."""
    source = {v.id: op for op in schedule.ops for v in op.outputs}
    met = set[tuple[int, int]]()
    for op in schedule.ops:
        if op.kind not in ("attend", "attend_backward"):
            continue
        for v in op.inputs[1:3]:
            came = source[v.id]
            if came.stream is not None and (v.id, op.inputs[0].id) not in met:
                met.add((v.id, op.inputs[0].id))
                yield v, op.inputs[0], came


def _bytes(schedule: Schedule, v: Value, queries: Value, came: Op) -> tuple[int, int]:
    """Bytes of a value that all ranks together receive, and those of them that they see."""
    mesh, mask = schedule.mesh, schedule.problem.mask
    if came.kind == "permute":
        own: Tokens | None = None
        others = senders(came, mesh) != np.arange(mesh.size)
    else:
        own = came.inputs[came.outputs.index(v)].tokens
        others = np.ones(mesh.size, dtype=bool)

    def rows(tokens: Tokens | None) -> Ints:
        return np.zeros(1, dtype=np.int64) if tokens is None else mesh.spread(tokens.count.at(mesh.grid()))

    def seen(tokens: Tokens | None) -> Tokens | None:
        return None if tokens is None else Seen(tokens, queries.tokens, mask)

    got, useful = rows(v.tokens) - rows(own), rows(seen(v.tokens)) - rows(seen(own))
    return int(got[others].sum()) * v.type.row_nbytes, int(useful[others].sum()) * v.type.row_nbytes
