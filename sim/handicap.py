"""Handicaps: a program whose ranks compute at speeds of their own and whose links carry less, from start to end.

They stand in the tables themselves, so that folding and every engine see them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from sim.program import Frozen, check_dense
from sim.rows import Row, coded
from sim.state import COMPUTE, Floats

MOST_CODED = 256


def slowed(frozen: Frozen, speed: Floats) -> Frozen:
    """Let each rank compute at `speed` [ranks]; what costs c takes c / speed, whatever its stream."""
    if (speed == 1).all():
        return frozen
    speeds, code = np.unique(speed, return_inverse=True)
    computes = frozen.bare.kind == COMPUTE
    used = np.unique(frozen.bare.row[computes])
    rows = [_divided(frozen.rows[k], speeds, code.reshape(-1), speed) for k in used]
    return _with_rows(frozen, dict(zip(used.tolist(), rows, strict=True)))


def _divided(row: Row, speeds: Floats, code: np.typing.NDArray[np.integer], speed: Floats) -> Row:
    """Divide a row by the speeds, keeping it short."""
    if row.code is None and not row.is_shared:
        return Row(row.values / speed)
    values, place = (row.values.reshape(1, -1) / speeds[:, None]).reshape(-1), code * row.values.size
    place = place if row.code is None else place + row.code
    if len(values) > MOST_CODED:
        return Row(values[place])
    return coded(values, place, np.unique(place))


def _with_rows(frozen: Frozen, changed: dict[int, Row]) -> Frozen:
    """Give the computes that use a row another one; bytes that share the row keep it."""
    number = {row: len(frozen.rows) + k for k, row in enumerate(changed)}
    of = np.array([number.get(row, row) for row in range(len(frozen.rows))], np.int32)
    row = np.where(frozen.bare.kind == COMPUTE, of[frozen.bare.row], frozen.bare.row).astype(np.int32)
    return replace(frozen, rows=(*frozen.rows, *changed.values()), bare=frozen.bare._replace(row=row))


def scaled(frozen: Frozen, factors: Mapping[int, Callable[[], Floats]]) -> Frozen:
    """Multiply the costs of computes, by op, with what gives their factors [ranks].

    Raises:
        ValueError: the products do not fit the memory.
    """
    check_dense(len(factors), frozen.ranks)
    rows = list(frozen.rows)
    row = frozen.bare.row.copy()
    for op, factor in factors.items():
        rows.append(Row(rows[row[op]].at() * factor()))
        row[op] = len(rows) - 1
    return replace(frozen, rows=tuple(rows), bare=frozen.bare._replace(row=row))
