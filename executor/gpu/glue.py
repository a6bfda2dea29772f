"""Glue on states as one kernel each, where the op's meaning would be a dozen; others keep their meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from algorithms.ops import module
from executor.gpu.engine import Engine, address
from executor.gpu.sources import KEPT, block

Meaning = Callable[..., tuple[Any, ...]]
KINDS = ("merge", "weigh", "normalise")


def fused(engine: Engine) -> Mapping[str, Meaning]:
    """What ops of these kinds do on a GPU."""
    return {kind: _fused(engine, kind) for kind in KINDS}


def _fused(engine: Engine, kind: str) -> Meaning:
    """Every kernel reads (out, lse, and another state or top) and writes what looks like the first two."""
    meaning, xp = module(kind).meaning, engine.xp

    def run(*arrays: Any) -> tuple[Any, ...]:
        out, lse = arrays[:2]
        alike = {x.dtype.name for x in arrays}
        if len(alike) > 1 or out.dtype.name not in KEPT or any(x.shape[0] != out.shape[0] for x in arrays):
            written: tuple[Any, ...] = meaning(xp, *arrays)
            return written
        read = [xp.ascontiguousarray(x) for x in arrays]
        made = [xp.empty(x.shape, dtype=x.dtype) for x in (out, lse)]
        if lse.size:
            arguments = [address(engine, x) for x in (*read, *made)]
            kernel, dim = f"{kind}<{KEPT[out.dtype.name]}>", out.shape[-1]
            engine.launch(kernel, (lse.size, 1), block(dim), [*arguments, np.int32(dim)])
        return made[0], made[1]

    return run
