"""Trials: candidates as they are tried, which orders of axes to try after them, and which results are one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from algorithms.ir import Inapplicable, Mesh
from algorithms.ir.job import Job
from sim.candidates import Candidate, Refusal
from sim.detours import NoPathError
from sim.estimate import CrowdedError
from sim.repeats import Progress as Part
from sim.result import Result

Progress = Callable[[float, str], None]  # share done, what is being done
Pair = tuple[Candidate, Result]
MOST_ORDERS = 48  # of an algorithm's axes, beside the order in which it names them
SAME = 1e-9  # relative: times that are one, whatever order their sums were made in


class Trials:
    """What each candidate costs, in the order tried, and why others cannot run."""

    def __init__(self, cost: Callable[[Candidate, Part | None], Result], progress: Progress | None) -> None:
        self.done: list[Pair] = []
        self.refused: list[Refusal] = []
        self._cost, self._progress, self._tried = cost, progress, 0
        self._crowded: set[tuple[str, Mesh]] = set()

    def run(self, todo: Sequence[Candidate], later: int = 0) -> None:
        """Try candidates; `later` of them are still to come. What is crowded is so in every layout: one is tried."""
        end = self._tried + len(todo) + later
        for candidate in todo:
            part = self._part(self._tried, end, str(candidate))
            self._tried += 1
            where = candidate.algorithm, candidate.mesh
            if where in self._crowded:
                continue
            try:
                self.done.append((candidate, self._cost(candidate, part)))
            except (CrowdedError, Inapplicable, NoPathError) as reason:
                self.refused.append(Refusal(candidate.algorithm, candidate.mesh.axes, str(reason)))
                if isinstance(reason, CrowdedError):
                    self._crowded.add(where)

    def _part(self, number: int, of: int, what: str) -> Part | None:
        """The progress of one candidate of several, said at its start too."""
        progress = self._progress
        if progress is None:
            return None
        progress(number / of, what)
        return lambda share, _: progress((number + share) / of, what)


def other_orders(done: Iterable[Pair], job: Job) -> tuple[list[Candidate], dict[str, int]]:
    """The orders of axes still to try, and how many of each algorithm are left untried.

    Each mesh is taken in the layout that was fastest on it, the fastest meshes first: the layout decides how even the
    work is, and the order which links carry it.
    """
    best: dict[tuple[str, object], Pair] = {}
    for pair in sorted(done, key=_rank):
        best.setdefault((pair[0].algorithm, pair[0].mesh), pair)
    todo: dict[str, list[Candidate]] = {}
    for candidate, _ in best.values():
        todo.setdefault(candidate.algorithm, []).extend(candidate.orders(job))
    untried = {name: len(orders) - MOST_ORDERS for name, orders in todo.items() if len(orders) > MOST_ORDERS}
    return list(chain.from_iterable(orders[:MOST_ORDERS] for orders in todo.values())), untried


def ranked(done: Sequence[Pair]) -> tuple[Pair, ...]:
    """Results that differ, best first but what does not fit last; of equals the one that was tried first."""
    return tuple(_distinct(sorted(_different_orders(done), key=_rank)))


def _rank(pair: Pair) -> tuple[bool, float, str]:
    candidate, found = pair
    return not found.fits, float(f"{found.time_s:.12g}"), candidate.algorithm


def _different_orders(done: Sequence[Pair]) -> list[Pair]:
    """Make one of candidates that differ in the order of their axes alone, where the cluster makes no difference."""
    kept: dict[tuple[object, ...], list[Pair]] = {}
    for candidate, found in done:
        sizes = frozenset(candidate.mesh.axes.items())
        before = kept.setdefault((candidate.algorithm, found.layout, sizes), [])
        same = next((number for number, (_, other) in enumerate(before) if _alike(found, other)), None)
        if same is None:
            before.append((candidate, found))
        else:
            first, its = before[same]
            before[same] = (replace(first, alike=(*first.alike, candidate.mesh)), its)
    return list(chain.from_iterable(kept.values()))


def _alike(found: Result, other: Result) -> bool:
    """Whether two orders of axes cost the same and load the same links."""
    same_time = math.isclose(found.time_s, other.time_s, rel_tol=SAME)
    return same_time and found.link_bytes == other.link_bytes and found.peak_bytes == other.peak_bytes


def _distinct(ordered: list[Pair]) -> Iterator[Pair]:
    """Leave out a candidate with an axis of one rank that is, in every number, an algorithm of fewer axes."""
    simple = {_numbers(found): len(one.program.axes) for one, found in ordered if _trivial(one) == 0}
    for candidate, found in ordered:
        axes = len(candidate.program.axes)
        if not (_trivial(candidate) and simple.get(_numbers(found), axes) < axes):
            yield candidate, found


def _trivial(candidate: Candidate) -> int:
    """Axes of one rank."""
    return sum(candidate.mesh.axes[axis] == 1 for axis in candidate.program.axes) if candidate.mesh.size > 1 else 0


def _numbers(found: Result) -> tuple[object, ...]:
    """What two results that are the same schedule share."""
    return found.layout, found.times_s, found.compute_s, found.sent_bytes, found.peak_bytes
