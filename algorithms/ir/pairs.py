"""Pairs: how many (query, key) pairs of a tile a mask leaves visible, in closed form on runs of positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from algorithms.ir.expr import Ints
from algorithms.ir.mask import ANYWHERE, Mask, ends_of
from algorithms.ir.tokens import Runs

_CHUNK = 1 << 22  # run pairs counted at once: 32 MiB an array
_RUNS = 1 << 16  # runs, or pairs of them, of documents looked at at once: they stay in the cache


class Pairs(NamedTuple):
    """Visible (query, key) pairs of a tile, and whether some run of it is cut by the mask's edge."""

    visible: Ints
    mixed: Ints


def count_pairs(mask: Mask, rows: Runs, cols: Runs) -> Pairs:
    """Count the visible pairs of a tile in closed form, without enumerating tokens.

    Args:
        rows, cols: runs of query and key positions; leading dimensions broadcast.
    Returns:
        Counts (and 0/1 flags), of the broadcast leading shape.
    """
    rows, cols = coalesced(rows), coalesced(cols)
    if mask.documents:
        return _within_documents(mask, rows, cols)
    if not mask.causal:
        return Pairs(rows.count.sum(-1) * cols.count.sum(-1), np.zeros((), dtype=np.int64))
    lead = np.broadcast_shapes(rows.start.shape[:-1], cols.start.shape[:-1])
    visible, mixed = np.zeros(lead, dtype=np.int64), np.zeros(lead, dtype=np.int64)
    width = max(1, _CHUNK // max(1, int(np.prod(lead)) * cols.start.shape[-1]))
    for k in range(0, rows.start.shape[-1], width):
        a, n = rows.start[..., k : k + width, None], rows.count[..., k : k + width, None]
        c, m = cols.start[..., None, :], cols.count[..., None, :]
        some = _of_two_runs(mask, a, n, rows.step, c, m, cols.step)
        visible = visible + some.sum((-2, -1))
        mixed = np.maximum(mixed, ((some > 0) & (some < n * m)).any((-2, -1)))
    return Pairs(visible, mixed)


def _of_two_runs(mask: Mask, a: Ints, n: Ints, s: int, c: Ints, m: Ints, u: int) -> Ints:
    """Visible pairs of queries a + s*i, i < n, and keys c + u*j, j < m, of one document."""
    if not mask.causal:
        return n * m
    up_to = _causal_pairs(a, n, s, c, m, u)
    return up_to - _causal_pairs(a - mask.window, n, s, c, m, u) if mask.window else up_to


def _of_few(mask: Mask, a: Ints, n: Ints, s: int, c: Ints, m: Ints, u: int) -> Ints:
    """The same, where of most pairs of runs all tokens see each other, or none do."""
    if not mask.causal:
        return n * m
    a_last, c_last, back = a + s * (n - 1), c + u * (m - 1), mask.window or ANYWHERE
    every = (c_last <= a) & (a_last - c < back)
    some = np.where(every, n * m, 0)
    cut = np.nonzero(~every & (c <= a_last) & (a - c_last < back) & (n > 0) & (m > 0))
    some[cut] = _of_two_runs(mask, a[cut], n[cut], s, c[cut], m[cut], u)
    return some


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
    apart = np.diff(start, axis=-1)
    if (apart < 0).any():
        order = np.argsort(start, axis=-1, kind="stable")
        start, count = np.take_along_axis(start, order, -1), np.take_along_axis(count, order, -1)
        apart = np.diff(start, axis=-1)
    if step == 1:
        touching = (apart == count[..., :-1]).reshape(-1, k - 1).all(0)
        heads = np.flatnonzero(np.concatenate([[True], ~touching]))
        return (
            Runs(start, count, 1)
            if len(heads) == k
            else Runs(start[..., heads], np.add.reduceat(count, heads, axis=-1), 1)
        )
    d = step // k
    dealt = d * k == step and bool((apart == d).all())
    if dealt and bool((np.diff(count, axis=-1) <= 0).all()) and bool((count[..., 0] - count[..., -1] <= 1).all()):
        return Runs(start[..., :1], count.sum(-1, keepdims=True), d)
    return Runs(start, count, step)


class _Pieces(NamedTuple):
    """Runs cut where documents begin, ordered by `place`, which counts documents from rank to rank."""

    place: Ints
    start: Ints
    held: Ints
    whole: Ints
    """Tokens of the run that the piece was cut from."""


def _within_documents(mask: Mask, rows: Runs, cols: Runs) -> Pairs:
    """Count where only tokens of one document meet: some ranks at a time."""
    lead = np.broadcast_shapes(rows.start.shape[:-1], cols.start.shape[:-1])
    n, m = (_flat(runs, lead) for runs in (rows, cols))
    pairs = _same_places(_places(n, mask), _places(m, mask))
    runs = max(n.start.shape[-1], m.start.shape[-1]) if pairs is None else len(pairs[0])
    visible, mixed = np.zeros((2, len(n.start)), dtype=np.int64)
    for k in range(0, len(n.start), width := max(1, _RUNS // max(1, runs))):
        part = slice(k, k + width)
        a, c = (Runs(x.start[part], x.count[part], x.step) for x in (n, m))
        visible[part], mixed[part] = _cut(mask, a, c) if pairs is None else _aligned(mask, a, c, *pairs)
    return Pairs(visible.reshape(lead), mixed.reshape(lead))


def _places(runs: Runs, mask: Mask) -> Ints | None:
    """The document of each run (k,), where the ranks agree and no run has tokens of two; -1: no rank has tokens."""
    held, edge = runs.count > 0, np.concatenate([[0], ends_of(mask.documents)])
    at = np.max(np.where(held, runs.start, -1), axis=0, initial=-1)
    number = np.searchsorted(edge, at, side="right") - 1
    last = runs.start + runs.step * (runs.count - 1)
    inside = (runs.start >= edge[number]) & (last < edge[np.minimum(number + 1, len(edge) - 1)])
    return number if (inside | ~held).all() else None


def _same_places(a: Ints | None, b: Ints | None) -> tuple[Ints, Ints] | None:
    """The runs of one document, as indices of all pairs of them."""
    if a is None or b is None:
        return None
    used, order = np.flatnonzero(a >= 0), np.argsort(b, kind="stable")
    found = [(used[i], order[j]) for i, j in _matches(a[used], b[order])]
    i, j = (np.concatenate([np.zeros(0, dtype=np.int64), *(pair[k] for pair in found)]) for k in (0, 1))
    return i, j


def _aligned(mask: Mask, rows: Runs, cols: Runs, i: Ints, j: Ints) -> tuple[Ints, Ints]:
    """Count the pairs of runs i and j, which are the same on all ranks."""
    n, m = rows.count[:, i], cols.count[:, j]
    some, every = _of_few(mask, rows.start[:, i], n, rows.step, cols.start[:, j], m, cols.step), n * m
    return np.asarray(some.sum(-1)), np.asarray(((some > 0) & (some < every)).any(-1), dtype=np.int64)


def _cut(mask: Mask, rows: Runs, cols: Runs) -> tuple[Ints, Ints]:
    """Count the pairs of pieces of runs, which meet in their document."""
    ranks, documents = len(rows.start), len(mask.documents)
    visible, mixed = np.zeros((2, ranks), dtype=np.int64)
    a, c = (_pieces(runs, mask.documents) for runs in (rows, cols))
    for i, j in _matches(a.place, c.place):
        some = _of_few(mask, a.start[i], a.held[i], rows.step, c.start[j], c.held[j], cols.step)
        rank = a.place[i] // documents
        visible += _sums(rank, some, ranks)
        mixed |= _sums(rank, (some > 0) & (some < a.whole[i] * c.whole[j]), ranks) > 0
    return visible, mixed


def _flat(runs: Runs, lead: tuple[int, ...]) -> Runs:
    """Runs with all leading dimensions made one."""
    k = runs.start.shape[-1]
    start, count = (np.broadcast_to(x, (*lead, k)).reshape(-1, k) for x in (runs.start, runs.count))
    return Runs(start, count, runs.step)


def _pieces(runs: Runs, documents: tuple[int, ...]) -> _Pieces:
    """Cut runs (ranks, k) where documents begin."""
    ends, step = ends_of(documents), runs.step
    rank = np.repeat(np.arange(len(runs.start)), runs.start.shape[-1])[held := runs.count.ravel() > 0]
    start, count = runs.start.ravel()[held], runs.count.ravel()[held]
    low, high = (np.searchsorted(ends, x, side="right") for x in (start, start + step * (count - 1)))
    of = np.repeat(np.arange(len(start)), high - low + 1)
    document = np.arange(len(of)) - np.repeat(np.cumsum(high - low + 1) - high - 1, high - low + 1)
    edge = np.concatenate([[0], ends])
    before, after = (np.clip(-((start[of] - edge[document + k]) // step), 0, count[of]) for k in (0, 1))
    place = rank[of] * len(documents) + document
    keep = np.flatnonzero(after > before)
    keep = keep[np.argsort(place[keep], kind="stable")]
    pieces = place, start[of] + step * before, after - before, count[of]
    return _Pieces(*(x[keep] for x in pieces))


def _matches(a: Ints, b: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Indices of all pairs of equal numbers of two ascending arrays, in order of the first, a chunk at a time."""
    low, high = np.searchsorted(b, a, side="left"), np.searchsorted(b, a, side="right")
    total = np.cumsum(high - low)
    begin = 0
    while begin < len(a):
        done = total[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(total, done + _CHUNK, side="right")))
        times = (high - low)[begin:end]
        first = np.repeat(np.arange(begin, end), times)
        second = np.arange(len(first)) - np.repeat(np.cumsum(times) - times - low[begin:end], times)
        yield first, second
        begin = end


def _sums(group: Ints, values: NDArray[Any], groups: int) -> Ints:
    """Sum of values by group number, which ascends."""
    total = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    edge = np.searchsorted(group, np.arange(groups + 1))
    return np.asarray(np.diff(total[edge]))
