"""Recorded: a timeline file held to what a run can be, and the schedule that it is of, made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from algorithms import find
from algorithms.ir import Attention, Mesh, ScheduleError
from algorithms.ir.schedule import Schedule
from algorithms.ir.timeline import Timeline, lines
from algorithms.ops import is_free
from algorithms.own import traced
from sim.repeats import Band
from sim.state import Floats

LONGEST = 1e9  # seconds: thirty years are no run
SAME = 1e-6  # of the makespan: times that are one
NAMES = {"id": int, "kind": str, "stream": str, "name": str}


@dataclass(frozen=True, eq=False)
class Recorded:
    """A timeline, its schedule, and what else was noted of its runs.

    Attributes:
        runs: seconds of every run that was timed, this one among them; empty where only this one is known.
        waited: when each op began to be waited for, (ops, ranks); None where nobody says.
        medians: over the runs, of the seconds that each op took, (ops, ranks); None where nobody says.
        ways: as simulate takes them; None: the library's own.
    """

    timeline: Timeline
    schedule: Schedule
    runs: tuple[float, ...] = ()
    waited: Floats | None = None
    medians: Floats | None = None
    ways: Mapping[str, str] | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def band(self) -> Band:
        """The median of the runs, and the times that one in ten is not above and not below."""
        return Band.of(self.runs or (self.timeline.makespan,))


def recorded(path: str, algorithm: str | None = None) -> Recorded:
    """Read a timeline file and make its schedule again.

    Args:
        algorithm: what it is of, in place of what the file says; needed where that is a file of somebody's own.
    Raises:
        ValueError: it is no timeline of all ranks, no run can be so, or its ops are not those of its schedule.
    """
    timeline = Timeline.read(path)
    try:
        _check_shape(timeline)
        schedule = _made_again(timeline, algorithm)
        _check_ops(timeline, schedule)
        _check_times(timeline, schedule)
        return _with_notes(timeline, schedule)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, MemoryError) as error:
        said = error.args[0] if error.args else type(error).__name__
        raise ValueError(f"{path}: {said}") from error


def _check_shape(timeline: Timeline) -> None:
    if timeline.extent is not False:
        raise ValueError("it has the extents of ops only, and not the times of every rank")
    shape = len(timeline.ops), timeline.start.shape[1] if timeline.start.ndim == 2 else -1
    for name, wanted in (("start", shape), ("end", shape), ("sent", shape), ("busy", shape[1:]), ("peak", shape[1:])):
        have = getattr(timeline, name).shape
        if have != wanted:
            raise ValueError(f"{name} must be one number {_each(name)}, {_text(wanted)}: got {_text(have)}")
    if not shape[0] or shape[1] < 1:
        raise ValueError(f"a run has ops and ranks: got {_text(shape)}")
    if not isinstance(timeline.about, Mapping):
        raise ValueError("about must be a mapping")
    if timeline.clock not in ("measured", "simulated"):
        raise ValueError(f"clock must be measured or simulated, got {timeline.clock!r}")
    for place, op in enumerate(timeline.ops):
        if not isinstance(op, Mapping) or any(not isinstance(op.get(name), kind) for name, kind in NAMES.items()):
            raise ValueError(f"each op has id, kind, stream and name: entry {place} is {op!r:.80}")


def _each(name: str) -> str:
    return "an op and rank" if name in ("start", "end", "sent") else "a rank"


def _text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) if -1 not in shape else "ops x ranks"


def _made_again(timeline: Timeline, algorithm: str | None) -> Schedule:
    about = timeline.about
    said = about.get("schedule", about)
    if not isinstance(said, Mapping):
        raise ValueError("about.schedule must be a mapping")
    name, axes, sizes = algorithm or said.get("algorithm"), said.get("mesh"), said.get("problem")
    if not (isinstance(name, str) and isinstance(axes, Mapping) and isinstance(sizes, Mapping)):
        raise ValueError("about must say algorithm, mesh and problem, so that its schedule can be made again")
    if ":" in name and algorithm is None:
        raise ValueError(f"it is of {name!r}, a file of somebody's own: say --algorithm {name} if it is to be run")
    try:
        mesh, problem = Mesh(**axes), Attention(**sizes)
    except TypeError as error:
        raise ValueError(f"about says no mesh or problem that there is: {error}") from None
    if mesh.size != timeline.start.shape[1]:
        raise ValueError(f"mesh {mesh} has {mesh.size} ranks: the times are of {timeline.start.shape[1]}")
    phases = find(name)
    if problem.phase not in phases:
        raise ValueError(f"{name} is written for {', '.join(phases)}, not {problem.phase}")
    try:
        return traced(f"{name} on {mesh}", phases[problem.phase], problem, mesh)
    except ScheduleError as error:
        raise ValueError(f"its schedule cannot be made again: {error}") from None


def _check_ops(timeline: Timeline, schedule: Schedule) -> None:
    """Refuse another program under the same name: what was timed must be what is looked at."""
    whose = f"{schedule.name} on {schedule.mesh}"
    for have, want in zip(timeline.ops, lines(schedule), strict=False):
        differing = [name for name in NAMES if have[name] != want[name]]
        if differing:
            texts = [", ".join(f"{name} {op[name]}" for name in differing) for op in (have, want)]
            raise ValueError(f"op {want['id']} has {texts[0]:.80}, the schedule of {whose} has {texts[1]}")
    if len(timeline.ops) != len(schedule.ops):
        raise ValueError(f"it has {len(timeline.ops)} ops, the schedule of {whose} has {len(schedule.ops)}")


def _check_times(timeline: Timeline, schedule: Schedule) -> None:
    start, end, whole = timeline.start, timeline.end, timeline.makespan
    if not (isinstance(whole, int | float) and 0 < whole <= LONGEST):
        raise ValueError(f"makespan must be above 0 and at most {LONGEST:g} seconds, got {whole!r:.40}")
    for name, times in (("start", start), ("end", end)):
        _refuse(~((times >= 0) & (times <= LONGEST)), times, timeline, f"{name} must be from 0 to {LONGEST:g} s")
    _refuse(end < start, end - start, timeline, "an op ends after it starts")
    if abs(whole - end.max()) > SAME * whole:
        raise ValueError(f"makespan is when the last op ends, {end.max():.9g} s: got {whole:.9g}")
    places = [op.id for op in schedule.ops if op.stream is None and not is_free(op)]
    lap = end[places[:-1]] - start[places[1:]]
    over = np.zeros(start.shape, bool)
    over[places[1:]] = lap > SAME * whole
    _refuse(over, start, timeline, "a rank computes one op after another: the one before it ends after this starts")


def _refuse(wrong: np.ndarray[Any, Any], values: Floats, timeline: Timeline, rule: str) -> None:
    if wrong.any():
        op, rank = (int(x[0]) for x in np.nonzero(wrong))
        raise ValueError(f"{rule}: {timeline.ops[op]['name']} on rank {rank} has {values[op, rank]:.9g}")


def _with_notes(timeline: Timeline, schedule: Schedule) -> Recorded:
    about = timeline.about
    waited, medians = _times(about, "waited", timeline), _times(about, "spent", timeline)
    environment = about.get("environment", {})
    if not isinstance(environment, Mapping):
        raise ValueError("about.environment must be a mapping")
    return Recorded(timeline, schedule, _runs(about), waited, medians, _ways(about), environment)


def _times(about: Mapping[str, Any], name: str, timeline: Timeline) -> Floats | None:
    if name not in about:
        return None
    times = np.asarray(about[name], np.float64)
    if times.shape != timeline.start.shape:
        raise ValueError(f"about.{name} must be {_text(timeline.start.shape)}, got {_text(times.shape)}")
    _refuse(~((times >= 0) & (times <= LONGEST)), times, timeline, f"about.{name} must be from 0 to {LONGEST:g} s")
    return times


def _runs(about: Mapping[str, Any]) -> tuple[float, ...]:
    runs = np.asarray(about.get("runs", []), np.float64)
    if runs.ndim != 1 or not ((runs > 0) & (runs <= LONGEST)).all():
        raise ValueError(f"about.runs must be seconds above 0, at most {LONGEST:g}, one a run")
    return tuple(runs.tolist())


def _ways(about: Mapping[str, Any]) -> Mapping[str, str] | None:
    ways = about.get("ways", "native")
    if ways == "native":
        return None
    if not isinstance(ways, Mapping) or not all(isinstance(x, str) for pair in ways.items() for x in pair):
        raise ValueError(f"about.ways must be native, or a way by collective: got {ways!r:.80}")
    return dict(ways)
