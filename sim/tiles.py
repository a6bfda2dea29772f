"""Tiles: the seconds of attention ops and the bytes of permuted blocks, worked out once for ranks that are alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.ir.alike import LENGTHS, alike, lengths
from algorithms.ir.expr import Const, Coords, Ints
from algorithms.ir.mesh import Mesh
from algorithms.ir.problem import Attention
from algorithms.ir.schedule import Op, Value
from algorithms.ir.tokens import Block
from sim.costs import Machine
from sim.rows import Row, coded, row
from sim.state import Floats

NONE = 3 * LENGTHS * LENGTHS  # the code of a rank that has no tile, after all others
ATTENTION = ("attend", "attend_backward")


class Tiles:
    """Numbers of tiles by their code, as `alike` gives it, for each kind of op met so far."""

    def __init__(self, machine: Machine, problem: Attention, mesh: Mesh) -> None:
        self.machine, self.problem, self.mesh, self.grid = machine, problem, mesh, mesh.grid()
        self.known: dict[Any, Floats] = {}

    def seconds(self, op: Op) -> Row:
        """Seconds of a compute op on each rank."""
        code = self.code(op)
        if code is None:
            return self.spread(self.machine.seconds(op, self.problem, self.grid, self.mesh.shape))
        values = self.values(("seconds", op.kind, op.params["mask"], *map(_sort, (*op.inputs, *op.outputs))))
        used, first = _first(code)
        new = np.isnan(values[used])
        if new.any():
            coords = self.coords(first[new])
            seconds = self.machine.seconds(op, self.problem, coords, (int(new.sum()),))
            values[used[new]] = seconds
        return coded(values, code, used)

    def code(self, op: Op) -> Ints | None:
        """The code of each rank's tile of an attention op, (P,); None where ranks must be looked at one by one."""
        if op.kind not in ATTENTION or self.machine.differs:
            return None
        rows, cols = op.inputs[0], op.inputs[1]
        if any(not isinstance(v.type.rows, Const) and v.tokens not in (rows.tokens, cols.tokens) for v in op.inputs):
            return None
        code = alike(rows.tokens, cols.tokens, self.grid)
        return None if code is None else self.mesh.spread(code)

    def nbytes(self, values: tuple[Value, ...], dst: Ints) -> Row:
        """Bytes that each rank sends when it sends these values to dst, (P,)."""
        blocks = [v.tokens for v in values]
        if not all(isinstance(b, Block) and b.key == blocks[0].key for b in blocks):
            total: Any = sum(self.mesh.spread(v.type.nbytes(self.grid)) for v in values)
            return row(np.where(dst >= 0, total, 0))
        block = blocks[0]
        assert isinstance(block, Block)
        held = self.mesh.spread(lengths(block.layout, block.index.at(self.grid)))
        code = np.where(dst >= 0, held, NONE)
        found = self.values(("nbytes", *map(_sort, values)))
        found[NONE] = 0
        used, first = _first(code)
        new = np.isnan(found[used])
        if new.any():
            coords = self.coords(first[new])
            found[used[new]] = sum(np.broadcast_to(v.type.nbytes(coords), new.sum()) for v in values)
        return coded(found, code, used)

    def values(self, key: object) -> Floats:
        """The numbers known for ops of one sort, by code; NaN where not yet known."""
        return self.known.setdefault(key, np.full(NONE + 1, np.nan))

    def coords(self, ranks: Ints) -> Coords:
        """Coordinates of some ranks."""
        places = np.unravel_index(ranks, self.mesh.shape)
        return dict(zip(self.mesh.names, places, strict=True))

    def spread(self, values: Floats) -> Row:
        """A row of numbers on the open grid of ranks."""
        return row(values if values.ndim == 0 else np.broadcast_to(values, self.mesh.shape).reshape(-1))


def _sort(value: Value) -> tuple[Any, ...]:
    """What the numbers of a value depend on, but for where its block lies."""
    tokens, rows = value.tokens, value.type.rows
    held = rows.value if isinstance(rows, Const) else tokens.layout if isinstance(tokens, Block) else value.id
    return value.type.width, value.type.dtype, held


def _first(code: Ints) -> tuple[Ints, Ints]:
    """Return the codes that occur, and the first rank of each."""
    first = np.full(NONE + 1, -1)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    used = np.flatnonzero(first >= 0)
    return used, first[used]
