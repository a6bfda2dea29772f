"""Tiles: the seconds of attention ops and the bytes of permuted blocks, worked out once for ranks that are alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from algorithms.ir.alike import LENGTHS, alike, lengths, orders
from algorithms.ir.expr import Const, Coords, Ints
from algorithms.ir.mesh import Mesh
from algorithms.ir.problem import Attention
from algorithms.ir.schedule import Op, Value
from algorithms.ir.tokens import Block
from sim.binding import BINDS, binds
from sim.codes import CODES, Codes, tally
from sim.costs import Machine
from sim.rows import Row, coded, row
from sim.state import Floats, Longs

SINGLE = 3 * LENGTHS * LENGTHS  # codes of tiles of two blocks; those of gathered blocks come after these
NONE = CODES - 1  # the code of a rank that has no tile, after all others
ATTENTION = ("attend", "attend_backward")
ONE: Codes = np.zeros((), np.uint8)  # the code of ranks that are all alike
Sort = tuple[Any, ...]
WorkOut = Callable[[Ints], Floats]


class Seconds(NamedTuple):
    """Seconds of a compute op on each rank; on all ranks together its FLOP, and the seconds by what binds, [BINDS]."""

    row: Row
    flop: float
    binds: Floats


@dataclass
class Known:
    """What is known of one sort of op.

    Attributes:
        values, flop, binds: [CODES] numbers by code; NaN, and 0, where not worked out yet. Of compute ops `values`
            are seconds, and `binds`, [BINDS, CODES], what they go to.
        rows: by the codes that occur together, the first such row, whose values all others share.
    """

    values: Floats = field(default_factory=lambda: np.full(CODES, np.nan))
    flop: Floats = field(default_factory=lambda: np.zeros(CODES))
    binds: Floats = field(default_factory=lambda: np.zeros((len(BINDS), CODES)))
    rows: dict[tuple[int, ...], Row] = field(default_factory=dict)


class Tiles:
    """Numbers of tiles by their code, as `alike` gives it, for each kind of op met so far."""

    def __init__(self, machine: Machine, problem: Attention, mesh: Mesh) -> None:
        self.machine, self.problem, self.mesh, self.grid = machine, problem, mesh, mesh.grid()
        self.known: dict[Sort, Known] = {}
        self.met: dict[Sort, Seconds] = {}
        self.numbers: dict[tuple[object, int], int] = {}

    def seconds(self, op: Op) -> Seconds:
        """Seconds of a compute op, and its FLOP."""
        values = (*op.inputs, *op.outputs)
        known = self.of_sort((op.kind, op.params.get("mask"), *_sorts(values)))
        where = id(known), *[0 if isinstance(v.type.rows, Const) else id(v.tokens) for v in values]
        if where in self.met:  # steps of a ring, say, each merge into a rank's own shard
            return self.met[where]
        code = self.code(op)
        if code is None:
            parts = self.machine.parts(op, self.problem, self.grid, self.mesh.shape)
            flop = float(np.broadcast_to(parts.flop, self.mesh.shape).sum())
            by = binds(parts, self.mesh.shape).reshape(len(BINDS), -1).sum(1)
            return Seconds(self.spread(parts.seconds), flop, by)
        count, each = tally(code.reshape(-1)), self.mesh.size if code.ndim == 0 else 1
        found = self.row(known, code, count, lambda ranks: self.some(op, known, code, ranks))
        flop = float((known.flop * count)[: NONE + 1].sum())
        spent = Seconds(found, flop * each, known.binds @ count * each)
        if op.kind not in ATTENTION:
            self.met[where] = spent
        return spent

    def some(self, op: Op, known: Known, code: Codes, ranks: Ints) -> Floats:
        """Seconds of an op on some ranks, each of a code of its own; what else is known of them is noted."""
        parts = self.machine.parts(op, self.problem, self.coords(ranks), ranks.shape)
        if op.kind in ATTENTION:
            known.flop[code.reshape(-1)[ranks]] = parts.flop
        known.binds[:, code.reshape(-1)[ranks]] = binds(parts, ranks.shape)
        return parts.seconds

    def of_sort(self, sort: Sort) -> Known:
        """What is known of a sort of op so far."""
        known = self.known.get(sort)
        if known is None:
            known = self.known[sort] = Known()
        return known

    def code(self, op: Op) -> Codes | None:
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
        tile = op.params["mask"], rows.tokens, cols.tokens, self.grid
        if (code := alike(*tile)) is not None:
            return self.flat(code)
        return None if (counts := orders(*tile)) is None else self.numbered(*counts)

    def numbered(self, every: object, counts: Ints) -> Codes | None:
        """A code for each count, where there are not too many."""
        distinct, place = np.unique(counts, return_inverse=True)
        codes = [self.numbers.setdefault((every, one), SINGLE + len(self.numbers)) for one in distinct.tolist()]
        return self.flat(np.array(codes, np.uint8)[place.reshape(counts.shape)]) if max(codes) < NONE else None

    def held(self, values: tuple[Value, ...]) -> Codes | None:
        """A number below NONE a rank, or one for all: where it is equal, so are the rows of these values.

        None where they are not known to be of one block.
        """
        if all(isinstance(v.type.rows, Const) for v in values):
            return ONE
        block = values[0].tokens
        if not isinstance(block, Block) or any(v.tokens is not block and v.tokens.key != block.key for v in values):
            return None
        return self.flat(lengths(block.layout).take(block.index.at(self.grid)))

    def flat(self, code: Any) -> Codes:
        """Codes on the open grid of ranks as one a rank; one for all stays one."""
        wide = code if code.ndim == 0 or code.shape == self.mesh.shape else np.broadcast_to(code, self.mesh.shape)
        flat: Codes = np.ascontiguousarray(wide).reshape(-1).view(np.uint8) if code.ndim else code.view(np.uint8)
        return flat

    def nbytes(self, values: tuple[Value, ...], dst: Ints) -> Row:
        """Bytes that each rank sends when it sends these values to dst, (P,)."""
        held = self.held(values)
        if held is None:
            total: Any = sum(self.mesh.spread(v.type.nbytes(self.grid)) for v in values)
            return row(np.where(dst >= 0, total, 0))

        def work_out(ranks: Ints) -> Floats:
            coords = self.coords(ranks)
            return np.where(dst[ranks] >= 0, sum(v.type.nbytes(coords) for v in values), 0)

        code: Codes = np.where(dst >= 0, held, np.uint8(NONE))
        return self.row(self.of_sort(("nbytes", *_sorts(values))), code, tally(code), work_out)

    def row(self, known: Known, code: Codes, count: Longs, work_out: WorkOut) -> Row:
        """The row of an op of a known sort; where it is one number, the same row each time.

        Args:
            count: how many ranks have each code.
            work_out: gives the numbers of some ranks; asked for codes that were not met before only.
        """
        used = np.flatnonzero(count)
        among = tuple(used.tolist())
        found = known.rows.get(among)
        if found is None:
            new = used[np.isnan(known.values[used])]
            if len(new) > 0:
                known.values[new] = work_out(np.array([int((code == one).argmax()) for one in new]))
            found = known.rows[among] = coded(known.values, code, used)
        return found if found.is_shared else Row(found.values, code)

    def coords(self, ranks: Ints) -> Coords:
        """Coordinates of some ranks."""
        places = np.unravel_index(ranks, self.mesh.shape)
        return dict(zip(self.mesh.names, places, strict=True))

    def spread(self, values: Floats) -> Row:
        """A row of numbers on the open grid of ranks."""
        return row(values if values.ndim == 0 else np.broadcast_to(values, self.mesh.shape).reshape(-1))


def _sorts(values: tuple[Value, ...]) -> Sort:
    """What the numbers of an op depend on, but for where the blocks of its values lie."""
    ids = [v.id for v in values]
    return tuple([(ids.index(v.id), v.type.width, v.type.dtype, _held(v)) for v in values])


def _held(v: Value) -> object:
    """What the rows of a value depend on."""
    rows, tokens = v.type.rows, v.tokens
    return rows.value if isinstance(rows, Const) else tokens.layout if isinstance(tokens, Block) else v.id
