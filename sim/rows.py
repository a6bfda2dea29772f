"""Rows: one number a rank, kept no larger than it is: a single number, a few that a code chooses from, or all."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sim.state import Floats

Codes = npt.NDArray[np.uint8]
Ranks = slice | npt.NDArray[np.integer]
ALL = slice(None)


class Row(NamedTuple):
    """The numbers of all ranks.

    Attributes:
        values: one number for all, shape (); or one a rank, (ranks,); or those that `code` chooses from, (distinct,).
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
            return self.values[self.code[ranks]]
        return self.values if self.is_shared else self.values[ranks]


def coded(values: Floats, code: npt.NDArray[np.integer]) -> Row:
    """Return the row values[code], the shorter the fewer distinct values are used."""
    used = np.flatnonzero(np.bincount(code, minlength=len(values)))
    if (values[used] == values[used[0]]).all():
        return Row(values[used[0]])
    return Row(values, code.astype(np.uint8)) if len(values) <= 256 else Row(values[code])


def table(rows: Sequence[Row], ranks: int, of: Ranks = ALL) -> Floats:
    """Return rows as one array, [rows, ranks]: a row of zeros where there is none."""
    dense = np.zeros((max(1, len(rows)), len(range(ranks)[of]) if isinstance(of, slice) else len(of)))
    for k, row in enumerate(rows):
        dense[k] = row.at(of)
    return dense
