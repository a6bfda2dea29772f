"""A schedule: a DAG of bulk ops, each standing for what all ranks do. The edges are the values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, NoReturn

import numpy as np

from algorithms.ir.expr import Const, Coords, Expr, Ints, ScheduleError
from algorithms.ir.mask import Mask
from algorithms.ir.mesh import Axes, Mesh
from algorithms.ir.problem import ITEMSIZE, Attention
from algorithms.ir.tokens import Tokens

_elements = lru_cache(prod)  # of few shapes, over and over


@dataclass(frozen=True, slots=True, eq=False)
class TensorType:
    """Shape and dtype of a value: rows (an expression over ranks), then dimensions that all ranks share."""

    rows: Expr
    width: tuple[int, ...]
    dtype: str

    @property
    def shape(self) -> tuple[Expr | int, ...]:
        """All dimensions; the first may differ from rank to rank."""
        return (self.rows.value if isinstance(self.rows, Const) else self.rows, *self.width)

    @property
    def row_elements(self) -> int:
        """Elements of one row."""
        return _elements(self.width)

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row."""
        return _elements(self.width) * ITEMSIZE[self.dtype]

    def nbytes(self, coords: Coords) -> Ints:
        """Bytes held, on the open grid of coordinates."""
        return self.rows.at(coords) * self.row_nbytes

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


ALL_HEADS = Const(0)  # the first head of a value that was not split by heads


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """What one op writes on every rank.

    Attributes:
        tokens: the positions whose rows a rank holds.
        heads: the number of the first head that a rank holds, of those of its share of the job (batch folded in).
    """

    id: int
    type: TensorType
    tokens: Tokens
    heads: Expr = ALL_HEADS

    @property
    def shape(self) -> tuple[Expr | int, ...]:
        """Shape of the value; the first dimension may differ from rank to rank."""
        return self.type.shape

    def __str__(self) -> str:
        return f"%{self.id}"


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One line of the program, run by every rank; `over` and `lane` name the stream of a collective."""

    id: int
    kind: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    params: Mapping[str, Any]
    over: Axes = ()
    lane: int = 0

    @property
    def stream(self) -> tuple[Axes, int] | None:
        """The communication stream, or None for the compute stream."""
        return (self.over, self.lane) if self.over else None

    def __str__(self) -> str:
        where = f" over {','.join(self.over)}" + (f" lane {self.lane}" if self.lane else "") if self.over else ""
        params = "".join(f" {k}={_shown(v)}" for k, v in self.params.items())
        inputs = ", ".join(map(str, self.inputs))
        outputs = ", ".join(f"{v}: {v.type}" for v in self.outputs)
        return f"{outputs} = {self.kind}({inputs}){where}{params}"


def _shown(param: Any) -> str:
    if isinstance(param, Mapping):
        return "{" + ", ".join(f"{k}: {v}" for k, v in param.items()) + "}"
    if isinstance(param, Mask):
        return param.short
    return f"{param:g}" if isinstance(param, float) else str(param)


class Partial(NamedTuple):
    """State of attention: normalised output and log-sum-exp; lse = -inf and out = 0 where nothing was seen."""

    out: Value
    lse: Value

    def __add__(self, other: object) -> NoReturn:
        raise ScheduleError("S6: states of attention do not add up: two of them are joined by merge(a, b)")


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """A traced algorithm: what all ranks of a mesh do for one problem."""

    name: str
    mesh: Mesh
    problem: Attention
    ops: tuple[Op, ...]
    results: Mapping[str, Value]

    def __str__(self) -> str:
        results = ", ".join(f"{name}={v}" for name, v in self.results.items())
        lines = [f"schedule {self.name} on {self.mesh}", *(f"  {op.id:>4}  {op}" for op in self.ops)]
        return "\n".join([*lines, f"  results {results}"])


def per_rank(x: Expr | int, mesh: Mesh) -> Ints:
    """Evaluate on every rank of a mesh, shape (P,)."""
    return mesh.spread(x.at(mesh.grid()) if isinstance(x, Expr) else np.asarray(x, dtype=np.int64))
