"""Whole models: the costs of layers of several kinds, one after another, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sim.bound import Bound
from sim.candidates import Kinds
from sim.repeats import Band
from sim.result import Range, Result

SUMS = ("time_low_s", "time_high_s", "compute_s", "exposed_communication_s", "bound_s")


def total(kinds: Kinds, each: Sequence[Result]) -> Result:
    """Add up what layers cost, given one of each kind, all run by one algorithm on one mesh in one layout.

    Bytes over ranks are the sums of the least, of the means and of the most; the peak is that of the largest kind.
    """
    parts = [one.times(number) for (number, _), one in zip(kinds, each, strict=True)]
    times = tuple(map(sum, zip(*(part.times_s for part in parts), strict=True)))
    band, seconds = Band.of(times), sum(part.time_s for part in parts)
    sums: dict[str, Any] = {name: sum(getattr(part, name) for part in parts) for name in SUMS}
    for rate in ("flop_rate", "mfu"):
        sums[rate] = sum(getattr(part, rate) * part.time_s for part in parts) / seconds if seconds else 0.0
    carried: Counter[str] = Counter()
    for part in parts:
        carried.update(part.link_bytes)
    return replace(
        max(parts, key=lambda part: part.time_s),  # whose bottleneck it is
        **sums,
        time_s=band.median,
        times_s=times,
        p10_s=band.p10,
        p90_s=band.p90,
        ways={kind: way for part in parts for kind, way in part.ways.items()},
        sent_bytes=Range(*map(sum, zip(*(part.sent_bytes for part in parts), strict=True))),
        peak_bytes=Range(*map(max, zip(*(part.peak_bytes for part in parts), strict=True))),
        fits=all(part.fits for part in parts),
        link_bytes=dict(carried),
        rests_on=tuple(dict.fromkeys(name for part in parts for name in part.rests_on)),
        kinds=tuple(
            {"layers": number, "mask": problem.mask.short, "time_s": part.time_s}
            for (number, problem), part in zip(kinds, parts, strict=True)
        ),
    )


def total_bound(kinds: Kinds, each: Sequence[Bound]) -> Bound:
    """The least time of layers of several kinds, one after another."""
    parts = [one.times(number) for (number, _), one in zip(kinds, each, strict=True)]
    limits: Counter[str] = Counter()
    for part in parts:
        limits.update(part.limits)
    return Bound(sum(part.seconds for part in parts), dict(limits))
