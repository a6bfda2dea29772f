"""Ops: one file each, holding how the op is written, what it means on arrays, and what it costs.

A compute op's module has
    <kind>(...)                        writes it into the schedule being traced;
    meaning(xp, *arrays, **params)     what it does with one rank's arrays (array-API namespace xp);
    work(op, coords)                   FLOP and bytes, where they are more than reading inputs and writing outputs;
    FREE = True                        where it takes no time at all, not even a launch;
    VIEW = True                        where it shows parts of its inputs where these lie: it takes no memory, and no
                                       place in a stream, either;
    ROWS = True                        where `meaning` is given rows=, the rank's row counts of the outputs;
    met(op, inputs, laws)              which other side's tokens its outputs have met (law S8); default: inputs[0].
A collective's module has, besides its own <kind>(...),
    give(xp, arrays, member, rows, params)   the named blocks a member holds at the start;
    take(xp, blocks, member, rows, params)   what it makes of the blocks it ends with;
    sizes(op, mesh)                          bytes of a block by the member it belongs to, (groups, p);
    owner(block, p, params)                  which member that is;
and, if it reduces, combine(xp, a, b, params); and shards(op), the values whose tokens are dealt to the members,
where these are not the inputs. `rows` are the row counts of the first of them by member.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from algorithms.ir.expr import Coords, Ints
from algorithms.ir.schedule import Op

_ZERO = np.zeros((), dtype=np.int64)


class Work(NamedTuple):
    """What a compute op costs on each rank, on the open grid of coordinates.

    flop: floating-point operations on visible pairs, as floats, since those of 16M tokens overflow int64.
    nbytes: bytes read and written once each. pairs: visible (query, key) pairs. rows: query rows.
    mixed: 1 where the mask's edge cuts the tile.
    """

    flop: Ints | NDArray[np.floating[Any]]
    nbytes: Ints
    pairs: Ints = _ZERO
    rows: Ints = _ZERO
    mixed: Ints = _ZERO


@cache
def module(kind: str) -> Any:
    """Return the module of an op's kind."""
    return import_module(f"algorithms.ops.{kind}")


@cache
def free() -> frozenset[str]:
    """The kinds of ops that take no time at all: what they write was there already."""
    return frozenset(m.name for m in iter_modules(__path__) if getattr(module(m.name), "FREE", False))


def is_free(op: Op) -> bool:
    """Whether an op takes no time at all."""
    return op.kind in free()


def is_view(op: Op) -> bool:
    """Whether an op shows parts of its inputs where these lie."""
    return bool(getattr(module(op.kind), "VIEW", False))


def computing() -> list[str]:
    """List the kinds of compute ops: the modules of this folder that mean something on one rank's arrays."""
    kinds = sorted(m.name for m in iter_modules(__path__))
    return [kind for kind in kinds if {kind, "meaning"} <= vars(module(kind)).keys()]


def work(op: Op, coords: Coords) -> Work:
    """Count what a compute op costs; glue reads its inputs and writes its outputs once."""
    own = getattr(module(op.kind), "work", None)
    if own is not None:
        counted: Work = own(op, coords)
        return counted
    return Work(_ZERO, touched(op, coords))


def variant(op: Op) -> str:
    """What tells collectives of one kind apart, as a library has them: what reduces, and what is dealt out."""
    said = (op.params.get(name) for name in ("op", "by", "split"))
    return " ".join(str(x) for x in said if x and x != "rows")


def touched(op: Op, coords: Coords) -> Ints:
    """Bytes of all inputs and outputs; a value read twice (v is k when K and V are one tensor) counts once."""
    values = {v.id: v for v in (*op.inputs, *op.outputs)}.values()
    return sum((v.type.nbytes(coords) for v in values), _ZERO)
