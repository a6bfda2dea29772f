"""A result: what one simulated schedule costs, as tables print it and `--json` gives it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from algorithms.ir.schedule import Schedule
from algorithms.ir.timeline import Timeline
from sim.binding import binding
from sim.bound import Bound, flop
from sim.numbers import rests_on
from sim.repeats import Band, Repeats
from sim.simulate import Site
from sim.useful import useful_share

SECONDS = (
    *("time_s", "p10_s", "p90_s", "time_low_s", "time_high_s"),
    *("compute_s", "exposed_communication_s", "bound_s"),
)
MOSTLY = 0.5  # share of the time for which something must be busy to be called the bottleneck


class Errors(NamedTuple):
    """Stated relative errors of the model: of the compute time, and of the exposed communication."""

    compute: float = 0.10
    communication: float = 0.25

    def check(self) -> Errors:
        """Refuse what is no share of 1."""
        for name, share in zip(("compute", "comm"), self, strict=True):
            if not (math.isfinite(share) and 0 <= share < 1):
                raise ValueError(f"--{name}-error must be from 0 to below 1, got {share}")
        return self

    def assumption(self) -> str:
        """The assumption as a line."""
        return (
            f"stated error of this model: {self.compute:.0%} of compute, {self.communication:.0%} of exposed "
            "communication; results whose intervals overlap the best are a tie"
        )


class Range(NamedTuple):
    """A number over the ranks."""

    min: int
    mean: float
    max: int

    @classmethod
    def of(cls, values: npt.NDArray[np.int64]) -> Range:
        """The range of one number a rank."""
        return cls(int(values.min()), float(values.mean()), int(values.max()))


@dataclass(frozen=True)
class Result:
    """What a schedule costs; times in seconds, sizes in bytes, of one layer or of all a model's.

    Attributes:
        time_s: of repeats, with jitter or seeds of ECMP, the median; times_s: of each repeat, one where nothing varies.
        p10_s, p90_s: times that one in ten repeats is not above, and not below.
        time_low_s, time_high_s: from p10_s less the model's stated error to p90_s and as much more.
        sent_bytes, peak_bytes: over ranks; attention only: no weights, no other layers.
        useful_share: of the keys and values that ranks receive, the share of bytes that some query there sees; None
            where nothing is received, or said.
        memory_bytes: of the smallest GPU; None where the cluster does not say. fits: whether the peak is within.
        link_bytes: carried by each class of link, all ranks together.
        flop_rate: FLOP/s of each GPU, visible pairs only; mfu: as a share of the data-sheet peak.
        bottleneck: what is busy most of the time: a class of link, the GPUs, by what most of their time goes to
            (compute, memory or launches), or waiting where none is.
        rests_on: names of the assumptions, as `--assume` takes them, that touch it.
        kinds: of a whole model, how many layers there are of each kind, their mask, and the time that all of them take.
    """

    algorithm: str
    mesh: Mapping[str, int]
    layout: str
    ways: Mapping[str, str]
    per: str
    time_s: float
    times_s: tuple[float, ...]
    p10_s: float
    p90_s: float
    time_low_s: float
    time_high_s: float
    compute_s: float
    exposed_communication_s: float
    sent_bytes: Range
    peak_bytes: Range
    useful_share: float | None
    memory_bytes: float | None
    fits: bool
    link_bytes: Mapping[str, int]
    flop_rate: float
    mfu: float
    bound_s: float
    bottleneck: str
    rests_on: tuple[str, ...]
    kinds: tuple[Mapping[str, object], ...] = ()

    def ties(self, best: Result) -> bool:
        """Whether the two cannot be told apart within band and stated error, and both fit the memory."""
        return self.fits and best.fits and self.time_low_s <= best.time_high_s

    def times(self, layers: int) -> Result:
        """The same for a whole model: layer after layer, nothing overlapping; memory stays that of one."""
        scaled: dict[str, Any] = {name: getattr(self, name) * layers for name in SECONDS}
        scaled["times_s"] = tuple(time * layers for time in self.times_s)
        least, mean, most = self.sent_bytes
        sent = Range(least * layers, mean * layers, most * layers)
        carried = {kind: nbytes * layers for kind, nbytes in self.link_bytes.items()}
        return replace(self, per="model", sent_bytes=sent, link_bytes=carried, **scaled)

    def record(self) -> dict[str, Any]:
        """The fields by name, as `--json` has them."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return plain | {name: plain[name]._asdict() for name in ("sent_bytes", "peak_bytes")}


def result(algorithm: str, schedule: Schedule, runs: Repeats, site: Site, least: Bound, errors: Errors) -> Result:
    """Sum up a simulated schedule of one layer."""
    timeline, band = runs.timeline, Band.of(runs.times)
    compute, exposed, seconds = timeline.compute, timeline.exposed, timeline.makespan
    below, above = (band.p10 / seconds, band.p90 / seconds) if seconds > 0 else (1.0, 1.0)
    ranks, problem = schedule.mesh.size, schedule.problem
    rate = sum(flop(problem)) / seconds / ranks if seconds > 0 else 0.0
    peak = float(np.broadcast_to(site.machine.peaks(problem.dtype), site.network.ranks)[:ranks].mean())
    ways = timeline.about["ways"]
    memory = smallest_memory(site, ranks)
    return Result(
        algorithm=algorithm,
        mesh=dict(schedule.mesh.axes),
        layout=problem.layout,
        ways=ways,
        per="layer",
        time_s=seconds,
        times_s=runs.times,
        p10_s=band.p10,
        p90_s=band.p90,
        time_low_s=below * (compute * (1 - errors.compute) + exposed * (1 - errors.communication)),
        time_high_s=above * (compute * (1 + errors.compute) + exposed * (1 + errors.communication)),
        compute_s=compute,
        exposed_communication_s=exposed,
        sent_bytes=Range.of(timeline.sent_per_rank()),
        peak_bytes=Range.of(timeline.peak),
        useful_share=useful_share(schedule),
        memory_bytes=memory,
        fits=memory is None or int(timeline.peak.max()) <= memory,
        link_bytes=timeline.link_bytes,
        flop_rate=rate,
        mfu=rate / peak,
        bound_s=least.seconds,
        bottleneck=bottleneck(timeline),
        rests_on=rests_on(schedule, [kind for kind, nbytes in timeline.link_bytes.items() if nbytes]),
    )


def tied(found: Result, results: Sequence[Result]) -> bool:
    """Whether a result cannot be told from the best, and there is another."""
    return found.ties(results[0]) and any(other.ties(results[0]) for other in results[1:])


def smallest_memory(site: Site, ranks: int) -> float | None:
    """Bytes of the smallest GPU that is used, where all say how many they have."""
    sizes = [site.graph.nodes[gpu].get("memory") for gpu in site.network.gpus[:ranks]]
    return None if None in sizes else float(min(sizes))


def bottleneck(timeline: Timeline) -> str:
    """What is busy most of the time: compute, memory or launches of the GPUs, a class of link, or waiting."""
    seconds = timeline.makespan
    busy = {"compute": timeline.compute / seconds} if seconds > 0 else {}
    for link in timeline.hot_links:
        busy[link["kind"]] = max(busy.get(link["kind"], 0.0), link["utilisation"])
    busiest = max(busy, key=lambda name: busy[name], default="waiting")
    if busy.get(busiest, 0.0) < MOSTLY:
        return "waiting"
    return binding(timeline.busy_by) if busiest == "compute" else busiest
