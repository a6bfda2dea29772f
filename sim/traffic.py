"""Traffic: the bytes that a frozen program moves, by flow, by link and by class of link."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sim.program import Frozen
from sim.rows import Row, total
from sim.state import PERMUTE, Floats


def flow_bytes(frozen: Frozen) -> Floats:
    """Return the bytes of each flow over the whole program, [flows]."""
    plan = frozen.bare
    carried = np.zeros((len(plan.dst), frozen.ranks))
    permutes = np.flatnonzero(plan.kind == PERMUTE)
    uses, times = np.unique(np.stack([plan.pattern[permutes], plan.row[permutes]]), axis=1, return_counts=True)
    for pattern, row, count in zip(*uses, times, strict=True):
        carried[pattern] += frozen.rows[row].at() * count
    return np.where(plan.dst >= 0, carried, 0.0).reshape(-1)


def link_bytes(frozen: Frozen) -> Floats:
    """Return the bytes of each link over the whole program, [links]."""
    plan = frozen.bare
    weights = (flow_bytes(frozen)[:, None] * plan.weight).reshape(-1)
    carried = np.bincount(plan.route.reshape(-1), weights, minlength=len(frozen.capacity))
    return np.asarray(carried[:-1], np.float64)


def class_bytes(frozen: Frozen) -> dict[str, int]:
    """Bytes carried by each class of link; a flow counts once in every class that it crosses."""
    kinds = sorted(set(frozen.network.kinds))
    place = {kind: k for k, kind in enumerate(kinds)}
    number = np.array([*(place[kind] for kind in frozen.network.kinds), len(kinds)])
    flows, crossed = flow_bytes(frozen), number[frozen.bare.route]
    return {kind: int(flows[(crossed == k).any(1)].sum()) for k, kind in enumerate(kinds)}


def sent_bytes(sent: Sequence[Sequence[Row]], ranks: int, extent: bool) -> npt.NDArray[np.int64]:
    """Return the bytes that ranks send in each op, [ops, ranks]; or the least and the most, [ops, 2]."""
    known: dict[tuple[int, ...], npt.ArrayLike] = {}  # what is passed on keeps its rows
    each = [tuple(map(id, rows)) for rows in sent]
    for key, rows in zip(each, sent, strict=True):
        if key not in known:
            nbytes = rows[0].values if extent and len(rows) == 1 else total(rows)
            known[key] = (nbytes.min(), nbytes.max()) if extent else np.broadcast_to(nbytes, ranks)
    return np.array([known[key] for key in each], np.int64).reshape(len(each), 2 if extent else ranks)
