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
from sim.jitter import Band
from sim.numbers import rests_on
from sim.simulate import Site

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
        time_low_s, time_high_s: the time within the model's stated error.
        sent_bytes, peak_bytes: over ranks; attention only: no weights, no other layers.
        memory_bytes: of the smallest GPU; None where the cluster does not say. fits: whether the peak is within.
        link_bytes: carried by each class of link, all ranks together.
        flop_rate: FLOP/s of each GPU, visible pairs only; mfu: as a share of the data-sheet peak.
        bottleneck: what is busy most of the time: a class of link, the GPUs, by what most of their time goes to
            (compute, memory or launches), or waiting where none is.
        rests_on: names of the assumptions, as `--assume` takes them, that touch it.
        routing_seed: of the hash that chose its paths; None where none did.
    """

    algorithm: str
    mesh: Mapping[str, int]
    layout: str
    ways: Mapping[str, str]
    per: str
    time_s: float
    time_low_s: float
    time_high_s: float
    compute_s: float
    exposed_communication_s: float
    sent_bytes: Range
    peak_bytes: Range
    memory_bytes: float | None
    fits: bool
    link_bytes: Mapping[str, int]
    flop_rate: float
    mfu: float
    bound_s: float
    bottleneck: str
    rests_on: tuple[str, ...]
    routing_seed: int | None = None

    def ties(self, best: Result) -> bool:
        """Whether the two cannot be told apart within the model's stated error, and both fit the memory."""
        return self.fits and best.fits and self.time_low_s <= best.time_high_s

    def widened(self, band: Band) -> Result:
        """The same with an interval that is wider by what one in ten of several runs is below and above it."""
        below, above = max(0.0, self.time_s - band.p10), max(0.0, band.p90 - self.time_s)
        return replace(self, time_low_s=self.time_low_s - below, time_high_s=self.time_high_s + above)

    def times(self, layers: int) -> Result:
        """The same for a whole model: layer after layer, nothing overlapping; memory stays that of one."""
        seconds = ("time_s", "time_low_s", "time_high_s", "compute_s", "exposed_communication_s", "bound_s")
        scaled: dict[str, Any] = {name: getattr(self, name) * layers for name in seconds}
        least, mean, most = self.sent_bytes
        sent = Range(least * layers, mean * layers, most * layers)
        carried = {kind: nbytes * layers for kind, nbytes in self.link_bytes.items()}
        return replace(self, per="model", sent_bytes=sent, link_bytes=carried, **scaled)

    def record(self) -> dict[str, Any]:
        """The fields by name, as `--json` has them."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return plain | {name: plain[name]._asdict() for name in ("sent_bytes", "peak_bytes")}


def result(algorithm: str, schedule: Schedule, timeline: Timeline, site: Site, least: Bound, errors: Errors) -> Result:
    """Sum up a simulated schedule of one layer."""
    compute, exposed, seconds = timeline.compute, timeline.exposed, timeline.makespan
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
        time_low_s=compute * (1 - errors.compute) + exposed * (1 - errors.communication),
        time_high_s=compute * (1 + errors.compute) + exposed * (1 + errors.communication),
        compute_s=compute,
        exposed_communication_s=exposed,
        sent_bytes=Range.of(timeline.sent_per_rank()),
        peak_bytes=Range.of(timeline.peak),
        memory_bytes=memory,
        fits=memory is None or int(timeline.peak.max()) <= memory,
        link_bytes=timeline.link_bytes,
        flop_rate=rate,
        mfu=rate / peak,
        bound_s=least.seconds,
        bottleneck=bottleneck(schedule, timeline, site),
        rests_on=rests_on(schedule, [kind for kind, nbytes in timeline.link_bytes.items() if nbytes]),
        routing_seed=site.routing.seed if site.routing.varies else None,
    )


def tied(found: Result, results: Sequence[Result]) -> bool:
    """Whether a result cannot be told from the best, and there is another."""
    return found.ties(results[0]) and any(other.ties(results[0]) for other in results[1:])


def smallest_memory(site: Site, ranks: int) -> float | None:
    """Bytes of the smallest GPU that is used, where all say how many they have."""
    sizes = [site.graph.nodes[gpu].get("memory") for gpu in site.network.gpus[:ranks]]
    return None if None in sizes else float(min(sizes))


def bottleneck(schedule: Schedule, timeline: Timeline, site: Site) -> str:
    """What is busy most of the time: compute, memory or launches of the GPUs, a class of link, or waiting."""
    seconds = timeline.makespan
    busy = {"compute": timeline.compute / seconds} if seconds > 0 else {}
    for link in timeline.hot_links:
        busy[link["kind"]] = max(busy.get(link["kind"], 0.0), link["utilisation"])
    busiest = max(busy, key=lambda name: busy[name], default="waiting")
    if busy.get(busiest, 0.0) < MOSTLY:
        return "waiting"
    return binding(schedule, site.machine) if busiest == "compute" else busiest
