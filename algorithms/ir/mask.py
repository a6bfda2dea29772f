"""Masks: which key positions a query position may see, and how many pairs that makes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from algorithms import unknown
from algorithms.ir.expr import Ints, ScheduleError
from algorithms.ir.tokens import Runs

MASKS = ("full", "causal")
_CHUNK = 1 << 22  # run pairs counted at once: 32 MiB an array


class Pairs(NamedTuple):
    """Visible (query, key) pairs of a tile, and whether some run of it is cut by the mask's edge."""

    visible: Ints
    mixed: Ints


def check_mask(mask: str) -> str:
    """Return the mask's name, refusing unknown ones."""
    if mask not in MASKS:
        raise ScheduleError(unknown("mask", mask, MASKS))
    return mask


def sees(mask: str, rows: Ints, cols: Ints) -> Ints:
    """Whether query position rows may see key position cols, broadcasting."""
    return np.asarray(cols <= rows if mask == "causal" else np.broadcast_to(True, np.broadcast(rows, cols).shape))


def count_pairs(mask: str, rows: Runs, cols: Runs) -> Pairs:
    """Count the visible pairs of a tile in closed form, without enumerating tokens.

    Args:
        rows, cols: runs of query and key positions; leading dimensions broadcast.
    Returns:
        Counts (and 0/1 flags), of the broadcast leading shape.
    """
    rows, cols = coalesced(rows), coalesced(cols)
    if mask == "full":
        return Pairs(rows.count.sum(-1) * cols.count.sum(-1), np.zeros((), dtype=np.int64))
    lead = np.broadcast_shapes(rows.start.shape[:-1], cols.start.shape[:-1])
    visible, mixed = np.zeros(lead, dtype=np.int64), np.zeros(lead, dtype=np.int64)
    width = max(1, _CHUNK // max(1, int(np.prod(lead)) * cols.start.shape[-1]))
    for k in range(0, rows.start.shape[-1], width):
        a, n = rows.start[..., k : k + width, None], rows.count[..., k : k + width, None]
        c, m = cols.start[..., None, :], cols.count[..., None, :]
        some = _causal_pairs(a, n, rows.step, c, m, cols.step)
        visible = visible + some.sum((-2, -1))
        mixed = np.maximum(mixed, ((some > 0) & (some < n * m)).any((-2, -1)))
    return Pairs(visible, mixed)


def _causal_pairs(a: Ints, n: Ints, s: int, c: Ints, m: Ints, u: int) -> Ints:
    """Pairs i < n, j < m with c + u*j <= a + s*i."""
    if s == u:
        gap = (a - c) // s  # row i sees keys up to gap + i
        return np.asarray(_clipped_sum(gap + n, m) - _clipped_sum(gap, m))
    first = np.clip(-((a - c) // s), 0, n)  # the first row that sees any key
    full = np.clip(-((a - c - u * (m - 1)) // s), first, n)  # the first row that sees all
    some = full - first
    return np.asarray(floor_sum(some, s, np.maximum(a - c + s * first, 0), u) + some + (n - full) * m)


def _clipped_sum(x: Ints, m: Ints) -> Ints:
    """Sum of min(t, m) over 1 <= t <= x."""
    inside = np.clip(x, 0, m)
    return np.asarray(inside * (inside + 1) // 2 + np.maximum(x - m, 0) * m)


def floor_sum(n: Ints, a: int | Ints, b: Ints, m: int | Ints) -> Ints:
    """Sum of floor((a*i + b) / m) for 0 <= i < n, elementwise, by Euclid's algorithm; a, b >= 0, m > 0."""
    n, a, b, m = (x.copy() for x in np.broadcast_arrays(*(np.asarray(x, dtype=np.int64) for x in (n, a, b, m))))
    result = np.zeros_like(n)
    live = n > 0
    while live.any():
        result = np.where(live, result + n * (n - 1) // 2 * (a // m) + n * (b // m), result)
        a, b = a % m, b % m
        top = a * n + b
        live &= top >= m
        n, b, m, a = np.where(live, top // m, n), np.where(live, top % m, b), np.where(live, a, m), np.where(live, m, a)
    return result


def coalesced(runs: Runs) -> Runs:
    """Join runs that continue each other on every rank; the order of rows is lost, their set is not.

    k runs of step p whose starts are d apart with k*d = p are one run of step d; neighbouring runs of step 1
    are joined where they touch.
    """
    start, count, step = runs.start, runs.count, runs.step
    k = start.shape[-1]
    if k < 2:
        return runs
    start, count = np.broadcast_arrays(start, count)
    order = np.argsort(start, axis=-1, kind="stable")
    start, count = np.take_along_axis(start, order, -1), np.take_along_axis(count, order, -1)
    apart = np.diff(start, axis=-1)
    if step == 1:
        touching = (apart == count[..., :-1]).reshape(-1, k - 1).all(0)
        heads = np.flatnonzero(np.concatenate([[True], ~touching]))
        return Runs(start[..., heads], np.add.reduceat(count, heads, axis=-1), 1)
    d = step // k
    dealt = d * k == step and bool((apart == d).all())
    if dealt and bool((np.diff(count, axis=-1) <= 0).all()) and bool((count[..., 0] - count[..., -1] <= 1).all()):
        return Runs(start[..., :1], count.sum(-1, keepdims=True), d)
    return Runs(start, count, step)
