"""Repeats: one schedule run several times, in the ways that a collective library would choose.

Each repeat draws its jitter anew, and takes another seed where the routing hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from algorithms.ir.schedule import Schedule
from algorithms.ir.timeline import Timeline
from sim.estimate import Notice
from sim.jitter import Jitter
from sim.simulate import Site, simulate

LIBRARY_WAYS = {"all_reduce": ("ring", "doubling")}  # long messages take the ring, short ones a tree's few steps
Progress = Callable[[float, float], None]  # share done, seconds simulated


class Band(NamedTuple):
    """Times of repeated runs, in seconds: the median, and what one in ten is not above, and not below.

    Each is the time of a run: of an even number, the median is the lower of the two in the middle.
    """

    median: float
    p10: float
    p90: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Band:
        """The band of some times."""
        p10, median, p90 = np.quantile(seconds, (0.1, 0.5, 0.9), method="inverted_cdf")
        return cls(float(median), float(p10), float(p90))


class Repeats(NamedTuple):
    """Runs of one schedule: the one in the middle, whose makespan is the median, and the makespan of each."""

    timeline: Timeline
    times: tuple[float, ...]


def middle(times: Sequence[float]) -> int:
    """Which of several runs has the median time."""
    return times.index(sorted(times)[(len(times) - 1) // 2])


def repeated(
    schedule: Schedule,
    site: Site,
    ways: Mapping[str, str] | None = None,
    jitters: Sequence[Jitter | None] = (None,),
    *,
    progress: Progress | None = None,
    **how: Any,
) -> Repeats:
    """Run a schedule once for each jitter, in those of the ways that libraries choose from whose median is least.

    Args:
        site: repeat k runs on `site.repeat(k)`. jitters: None where compute times do not vary.
        ways: way by collective, where one was asked for. how: what else `simulate` takes.
    """
    tried = list(choices(schedule, ways or {}))
    found = (
        _in_ways(schedule, site, jitters, _part(progress, number, len(tried)), {**how, "ways": chosen})
        for number, chosen in enumerate(tried)
    )
    return min(found, key=lambda one: one.timeline.makespan)


def _in_ways(
    schedule: Schedule, site: Site, jitters: Sequence[Jitter | None], progress: Progress | None, how: Mapping[str, Any]
) -> Repeats:
    """Run all repeats for their times; then the one in the middle again, to keep, as the timelines of all are large."""
    if len(jitters) == 1:
        timeline = simulate(schedule, site, jitter=jitters[0], progress=progress, **how)
        return Repeats(timeline, (timeline.makespan,))
    times, runs = list[float](), len(jitters) + 1
    notice = _of_several(how.get("notice"), runs)
    for number, jitter in enumerate(jitters):
        bare = {**how, "path": False, "notice": None if number else notice}
        part = _part(progress, number, runs)
        found = simulate(schedule, site.repeat(number), jitter=jitter, progress=part, **bare)
        times.append(found.makespan)
        if jitter is None and not found.about["routing"]["pairs_with_equal_paths"]:
            times *= len(jitters)  # no seed would change a route
            break
    number, part, how = middle(times), _part(progress, runs - 1, runs), {**how, "notice": None}
    kept = simulate(schedule, site.repeat(number), jitter=jitters[number], progress=part, **how)
    return Repeats(kept, tuple(times))


def _part(progress: Progress | None, number: int, of: int) -> Progress | None:
    """The progress of one of several runs."""
    return progress and (lambda share, seconds: progress((number + share) / of, seconds))


def _of_several(notice: Notice | None, runs: int) -> Notice | None:
    """A notice that is true of each of several runs."""
    return notice and (lambda text: notice(f"{text}, for each of {runs} runs"))


def choices(schedule: Schedule, asked: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The ways to try: those asked for, and for other collectives every one that libraries choose from by size."""
    used = {op.kind for op in schedule.ops}
    free = [kind for kind in LIBRARY_WAYS if kind in used and kind not in asked]
    for picked in product(*(LIBRARY_WAYS[kind] for kind in free)):
        yield {**asked, **dict(zip(free, picked, strict=True))}
