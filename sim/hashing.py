"""Hashing: words that look drawn, and are a function of what they stand for alone."""

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


def hashed(words: Words) -> Words:
    """SplitMix64: as good as independent for words that differ."""
    with np.errstate(over="ignore"):
        words = words + _STEP
        for shift, factor in _MIX:
            words = (words ^ (words >> np.uint64(shift))) * factor
        return words ^ (words >> np.uint64(31))
