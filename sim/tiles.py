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
from algorithms.ops import work
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

    def seconds(self, op: Op) -> tuple[Row, float]:
        """Seconds of a compute op on each rank, and its FLOP on all ranks together."""
        code = self.code(op)
        if code is None:
            everywhere = self.machine.seconds(op, self.problem, self.grid, self.mesh.shape)
            return self.spread(everywhere), float(np.broadcast_to(work(op, self.grid).flop, self.mesh.shape).sum())
        sort = op.kind, op.params.get("mask"), *_sorts((*op.inputs, *op.outputs))

        def seconds(ranks: Ints) -> Floats:
            return self.machine.seconds(op, self.problem, self.coords(ranks), ranks.shape)

        def flop(ranks: Ints) -> Floats:
            return np.asarray(work(op, self.coords(ranks)).flop, np.float64)

        row, count = self.row(sort, code, seconds)
        if op.kind not in ATTENTION:
            return row, 0.0
        each = self.values(("flop", *sort), code, np.flatnonzero(count), flop)
        return row, float(np.nansum(each * count)) * (self.mesh.size if code.ndim == 0 else 1)

    def code(self, op: Op) -> Ints | None:
        """A number below NONE a rank, or one for all: where it is equal, so are the seconds of the op.

        None where ranks must be looked at one by one.
        """
        if self.machine.differs:
            return None
        if op.kind not in ATTENTION:
            return self.held((*op.inputs, *op.outputs))
        rows, cols = op.inputs[0], op.inputs[1]
        if any(not isinstance(v.type.rows, Const) and v.tokens not in (rows.tokens, cols.tokens) for v in op.inputs):
            return None
        code = alike(op.params["mask"], rows.tokens, cols.tokens, self.grid)
        return code if code is None or code.ndim == 0 else self.mesh.spread(code)

    def held(self, values: tuple[Value, ...]) -> Ints | None:
        """A number below NONE a rank, or one for all: where it is equal, so are the rows of these values.

        None where they are not known to be of one block.
        """
        if all(isinstance(v.type.rows, Const) for v in values):
            return np.zeros((), np.int64)
        block = values[0].tokens
        if not isinstance(block, Block) or any(v.tokens is not block and v.tokens.key != block.key for v in values):
            return None
        return self.mesh.spread(lengths(block.layout, block.index.at(self.grid)))

    def nbytes(self, values: tuple[Value, ...], dst: Ints) -> Row:
        """Bytes that each rank sends when it sends these values to dst, (P,)."""
        held = self.held(values)
        if held is None:
            total: Any = sum(self.mesh.spread(v.type.nbytes(self.grid)) for v in values)
            return row(np.where(dst >= 0, total, 0))

        def work_out(ranks: Ints) -> Floats:
            coords = self.coords(ranks)
            return np.where(dst[ranks] >= 0, sum(v.type.nbytes(coords) for v in values), 0)

        return self.row(("nbytes", *_sorts(values)), np.where(dst >= 0, held, NONE), work_out)[0]

    def row(self, sort: tuple[Any, ...], code: Ints, work_out: Callable[[Ints], Floats]) -> tuple[Row, Ints]:
        """The row of a sort of op, and how many ranks have each code."""
        count = np.bincount(code.reshape(-1), minlength=NONE + 1)
        used = np.flatnonzero(count)
        return coded(self.values(sort, code, used, work_out), code, used), count

    def values(self, sort: tuple[Any, ...], code: Ints, used: Ints, work_out: Callable[[Ints], Floats]) -> Floats:
        """The numbers of a sort of op by code, of which only those not met before are worked out; others are NaN."""
        values = self.known.setdefault(sort, np.full(NONE + 1, np.nan))
        new = used[np.isnan(values[used])]
        if len(new) > 0:
            values[new] = work_out(np.array([int((code == one).argmax()) for one in new]))
        return values

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
