"""Codes: small numbers, one a rank, that choose from a few values. Compiled, as NumPy widens what it indexes with."""

import numpy as np
import numpy.typing as npt

from sim.jit import compiled
from sim.state import Floats, Longs

Codes = npt.NDArray[np.uint8]
CODES = 256


@compiled
def tally(code: Codes) -> Longs:
    """Count how often each code occurs, [CODES]."""
    counts = np.zeros((4, CODES), np.int64)  # neighbours count apart, as one counter would wait for itself
    for k in range(len(code) // 4 * 4):
        counts[k % 4, code[k]] += 1
    for k in range(len(code) // 4 * 4, len(code)):
        counts[0, code[k]] += 1
    return np.asarray(counts.sum(0))


@compiled
def spread(values: Floats, code: Codes) -> Floats:
    """Return values[code]."""
    chosen = np.empty(len(code))
    for k in range(len(code)):
        chosen[k] = values[code[k]]
    return chosen


@compiled
def add_spread(numbers: Floats, values: Floats, code: Codes) -> None:
    """Add values[code] to numbers, in place."""
    for k in range(len(code)):
        numbers[k] += values[code[k]]
