"""Tiles: the seconds of attention ops and the bytes of permuted blocks, worked out once for ranks that are alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from algorithms.ir.alike import LENGTHS, alike, lengths
from algorithms.ir.expr import Const, Coords, Ints
from algorithms.ir.mesh import Mesh
from algorithms.ir.problem import Attention
from algorithms.ir.schedule import Op, Value
from algorithms.ir.tokens import Block
from algorithms.ops import module
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

        def work_out(ranks: Ints) -> Floats:
            return self.machine.seconds(op, self.problem, self.coords(ranks), ranks.shape)

        return self.row((op.kind, op.params.get("mask"), *_sorts((*op.inputs, *op.outputs))), code, work_out)

    def code(self, op: Op) -> Ints | None:
        """A number below NONE a rank, or one for all: where it is equal, so are the seconds of the op.

        None where ranks must be looked at one by one.
        """
        if self.machine.differs:
            return None
        if op.kind not in ATTENTION:
            is_fixed = all(isinstance(v.type.rows, Const) for v in (*op.inputs, *op.outputs))
            return np.zeros((), np.int64) if is_fixed and not hasattr(module(op.kind), "work") else None
        rows, cols = op.inputs[0], op.inputs[1]
        if any(not isinstance(v.type.rows, Const) and v.tokens not in (rows.tokens, cols.tokens) for v in op.inputs):
            return None
        code = alike(op.params["mask"], rows.tokens, cols.tokens, self.grid)
        return code if code is None or code.ndim == 0 else self.mesh.spread(code)

    def nbytes(self, values: tuple[Value, ...], dst: Ints) -> Row:
        """Bytes that each rank sends when it sends these values to dst, (P,)."""
        block = values[0].tokens
        if not isinstance(block, Block) or any(v.tokens.key != block.key for v in values):
            total: Any = sum(self.mesh.spread(v.type.nbytes(self.grid)) for v in values)
            return row(np.where(dst >= 0, total, 0))

        def work_out(ranks: Ints) -> Floats:
            coords = self.coords(ranks)
            return np.where(dst[ranks] >= 0, sum(v.type.nbytes(coords) for v in values), 0)

        held = self.mesh.spread(lengths(block.layout, block.index.at(self.grid)))
        return self.row(("nbytes", *_sorts(values)), np.where(dst >= 0, held, NONE), work_out)

    def row(self, sort: tuple[Any, ...], code: Ints, work_out: Callable[[Ints], Floats]) -> Row:
        """The row of a sort of op, of which only the codes that were not met before are worked out."""
        values = self.known.setdefault(sort, np.full(NONE + 1, np.nan))
        used = np.flatnonzero(np.bincount(code.reshape(-1), minlength=NONE + 1))
        new = used[np.isnan(values[used])]
        if len(new) > 0:
            values[new] = work_out(np.array([int((code == one).argmax()) for one in new]))
        return coded(values, code, used)

    def coords(self, ranks: Ints) -> Coords:
        """Coordinates of some ranks."""
        places = np.unravel_index(ranks, self.mesh.shape)
        return dict(zip(self.mesh.names, places, strict=True))

    def spread(self, values: Floats) -> Row:
        """A row of numbers on the open grid of ranks."""
        return row(values if values.ndim == 0 else np.broadcast_to(values, self.mesh.shape).reshape(-1))


def _sorts(values: tuple[Value, ...]) -> Iterator[tuple[Any, ...]]:
    """What the numbers of an op depend on, but for where the blocks of its values lie."""
    place = {v.id: k for k, v in reversed(list(enumerate(values)))}
    for v in values:
        tokens, rows = v.tokens, v.type.rows
        held = rows.value if isinstance(rows, Const) else tokens.layout if isinstance(tokens, Block) else v.id
        yield place[v.id], v.type.width, v.type.dtype, held
