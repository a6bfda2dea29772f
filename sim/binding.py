"""Binding: what the GPUs' time goes to: arithmetic, their memory, or launches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sim.costs import Parts
from sim.state import Floats

BINDS = ("compute", "memory", "launches")


def binds(parts: Parts, shape: tuple[int, ...]) -> Floats:
    """The seconds of an op by what binds, of ranks of some shape, [BINDS, *shape]."""
    longer, is_memory = np.maximum(parts.arithmetic, parts.memory), parts.memory > parts.arithmetic
    found = np.empty((len(BINDS), *shape))
    found[0], found[1], found[2] = longer * ~is_memory, longer * is_memory, parts.launch
    return found


def binding(seconds: Mapping[str, float]) -> str:
    """What most of the GPUs' time goes to; an idealised cluster computes."""
    return max(BINDS, key=lambda one: seconds[one])
