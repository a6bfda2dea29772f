"""Plans: how a block of attention is cut into tiles that fit the cache of a GPU, and what each row of them sees.

Planned on the host from positions, once for each block of a schedule: positions do not change between runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from algorithms.ir.mask import Mask
from algorithms.ir.score import Score
from executor.gpu.engine import Engine
from executor.kernels import Positions
from executor.kernels.forward import interval_of
from executor.kernels.shapes import Sizes
from executor.kernels.tiles import Rows, Span, cut, cut_rows, visible

# A third of the cache for one tile of scores: what one GEMM writes, the next kernel reads from there.
CACHE_SHARE = 3
WIDTH = 2048
"""Keys of a tile; past it a row no longer fits the first-level cache in float64."""
FEWEST_ROWS = 64


class Plan(NamedTuple):
    """Tiles, and the positions and slopes of all rows on the GPU."""

    heads: int
    """KV heads that one tile takes together."""
    rows: list[Rows]
    keys: list[Span]
    first: Any
    """The first and last key that each query may see, and its own position: (n,) each; the keys' positions (m,)."""
    last: Any
    at: Any
    cols: Any
    slopes: Any
    """Of each query head, in the dtype of the computation; None without a bias."""

    def tiles(self, span: Rows) -> Iterator[tuple[slice, bool]]:
        """The keys of each tile that some query of a span sees, and whether the mask cuts through it."""
        for keys, mixed in visible(span, self.keys):
            yield keys.slice, mixed


def planned(engine: Engine, rows: Positions, cols: Positions, mask: Mask, score: Score, sizes: Sizes) -> Plan:
    """Plan a block, or find the plan that was made for the same arrays of positions."""
    key = (id(engine), id(rows), id(cols), id(score.slopes), mask, sizes)
    known = _plans.get(key)
    if known is not None and known[0]() is rows and known[1]() is cols:
        return known[2]
    plan = _plan(engine, rows, cols, mask, score, sizes)
    _plans[key] = weakref.ref(rows), weakref.ref(cols), plan
    weakref.finalize(rows, _plans.pop, key, None).atexit = False
    return plan


_plans: dict[Any, tuple[Any, Any, Plan]] = {}


def _plan(engine: Engine, rows: Positions, cols: Positions, mask: Mask, score: Score, sizes: Sizes) -> Plan:
    interval = interval_of(mask, rows)
    scores = max(1, int(engine.cache_bytes / (CACHE_SHARE * sizes.dtype.itemsize)))
    width = min(WIDTH, max(1, sizes.keys))
    side = max(1, max(min(FEWEST_ROWS, scores), scores // width) // sizes.group)
    spans = cut_rows(interval, side)
    most = max((x.first.stop - x.first.start for x in spans), default=1) * sizes.group
    heads = min(sizes.kv_heads, max(1, scores // (most * width)))
    on = engine.xp.asarray
    slopes = None if score.slopes is None else on(score.slopes.astype(sizes.dtype))
    first, last, at, keys = (on(np.ascontiguousarray(x)) for x in (*interval, rows, cols))
    return Plan(heads, spans, cut(cols, WIDTH), first, last, at, keys, slopes)
