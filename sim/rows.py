"""Rows: one number a rank, kept no larger than it is: a single number, a few that a code chooses from, or all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sim.codes import Codes, add_spread, spread
from sim.state import Floats

Ranks = slice | npt.NDArray[np.integer]
ALL = slice(None)


class Row(NamedTuple):
    """The numbers of all ranks.

    Attributes:
        values: one number for all, shape (); or one a rank, (ranks,); or those that `code` chooses from, (distinct,).
            None is there that no rank has.
        code: (ranks,) which of `values` is a rank's; None where there is nothing to choose.
    """

    values: Floats
    code: Codes | None = None

    @property
    def is_shared(self) -> bool:
        """Whether all ranks are known to have one number."""
        return self.values.ndim == 0

    def at(self, ranks: Ranks = ALL) -> Floats:
        """Return the numbers of `ranks`, or the one number."""
        if self.code is not None:
            return spread(self.values, self.code) if ranks is ALL else self.values[self.code[ranks]]
        return self.values if self.is_shared else self.values[ranks]

    def added_to(self, numbers: Floats) -> Floats:
        """Return numbers + these, rank by rank; an array may be changed for it."""
        if numbers.ndim == 0:
            return np.asarray(numbers + self.at())
        if self.code is None:
            numbers += self.values
        else:
            add_spread(numbers, self.values, self.code)
        return numbers


def row(values: npt.ArrayLike) -> Row:
    """Return the row of one number for all, or of one a rank, the shorter if these are equal."""
    numbers = np.asarray(values, np.float64)
    if numbers.ndim == 1 and len(numbers) > 0 and (numbers == numbers[0]).all():
        return Row(np.asarray(numbers[0]))
    return Row(numbers)


def coded(values: Floats, code: npt.NDArray[np.integer], used: npt.NDArray[np.integer]) -> Row:
    """Return the row values[code], where `used` lists the codes that occur, 256 at most."""
    if (values[used] == values[used[0]]).all():
        return Row(np.asarray(values[used[0]]))
    occurring = np.full(len(values), values[used[0]])
    occurring[used] = values[used]
    return Row(occurring, code.astype(np.uint8))


def table(rows: Sequence[Row], ranks: int) -> Floats:
    """Return rows as one array, [rows, ranks]; a row of zeros where there is none."""
    dense = np.zeros((max(1, len(rows)), ranks))
    for k, one in enumerate(rows):
        dense[k] = one.at()
    return dense


def total(rows: Iterable[Row]) -> Floats:
    """Return the sum of rows of whole numbers, one number a rank or one for all; a row met often is added once."""
    times: dict[int, tuple[Row, int]] = {}
    for one in rows:
        times[id(one)] = one, times.get(id(one), (one, 0))[1] + 1
    found = np.zeros(())
    for one, count in times.values():
        found = found + one.at() * count
    return np.asarray(found)
