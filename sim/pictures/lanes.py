"""Lanes: two runs of one schedule one above the other on one axis of time, a lane for each rank and stream.

`Lanes.of(beside)` gathers what is shown; `write` draws it into a file. matplotlib is imported only then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from algorithms.ops import is_free
from sim.beside import Beside, Row, Side
from sim.report import mesh_text
from topologies.units import format_seconds

MOST_RANKS = 16  # of more, only the slowest, the fastest and the one in the middle are drawn


class Span(NamedTuple):
    """An op in a lane, in seconds.

    Attributes:
        start, waited, goes_on, end: when it is posted, when its rank begins to wait for it, when all whom it meets are
            there, and when it ends; the first three are one for what is computed.
    """

    name: str
    kind: str
    start: float
    waited: float
    goes_on: float
    end: float


class Lane(NamedTuple):
    """A stream of a rank."""

    rank: int
    stream: str
    spans: tuple[Span, ...]


class Run(NamedTuple):
    """A run: what it is called, its lanes, the seconds it takes, and those of its 10th and 90th percentile."""

    title: str
    lanes: tuple[Lane, ...]
    seconds: float
    band: tuple[float, float] | None = None


@dataclass(frozen=True)
class Lanes:
    """Two runs, what is above them, and the table below.

    Attributes:
        kept: which ranks are drawn, where not all are.
        predicted: whether the second is a prediction, not a replay.
    """

    title: str
    about: str
    kept: str
    runs: tuple[Run, Run]
    rows: tuple[Row, ...]
    predicted: bool

    @property
    def posts(self) -> bool:
        """Whether some op is posted a while before its rank waits for it."""
        spans = (span for run in self.runs for lane in run.lanes for span in lane.spans)
        return any(span.waited > span.start for span in spans)

    @classmethod
    def of(cls, beside: Beside) -> Lanes:
        """Gather a measured run, and below it what was predicted, or its replay where nothing was."""
        recorded, there = beside.recorded, beside.prediction
        ranks, kept = _shown(beside.measured)
        band, clock = recorded.band, recorded.timeline.clock
        measured = Run(
            f"{clock}: {format_seconds(recorded.timeline.makespan)}",
            _lanes(beside, beside.measured, ranks),
            recorded.timeline.makespan,
            (band.p10, band.p90) if len(recorded.runs) > 1 else None,
        )
        other = there or Side(beside.replayed, beside.measured.took)
        what = "predicted" if there else "replayed"
        below = Run(
            f"{what}: {format_seconds(other.timeline.makespan)} ({beside.error(other.timeline.makespan):+.1%})",
            _lanes(beside, other, ranks),
            other.timeline.makespan,
        )
        schedule, about = recorded.schedule, recorded.environment
        problem = schedule.problem
        title = f"{schedule.name} {problem.phase} on {mesh_text(schedule.mesh.axes)}"
        lines = [
            f"{problem.query_len:,} of {problem.key_len:,} tokens, mask {problem.mask.short}, {problem.layout}, "
            f"{problem.heads}/{problem.kv_heads} heads of {problem.head_dim}, {problem.dtype}",
            *(str(about[name]) for name in ("cpu", "mpi", "date") if about.get(name)),
        ]
        return cls(title, "; ".join(lines), kept, (measured, below), tuple(beside.by_kind()), there is not None)


def _shown(side: Side) -> tuple[list[int], str]:
    """The ranks that are drawn, and a line that says which where these are not all."""
    ranks = side.timeline.ranks
    if ranks <= MOST_RANKS:
        return list(range(ranks)), ""
    order = np.argsort((side.took.seconds + side.took.posting).sum(0), kind="stable").tolist()
    fastest, middle, slowest = order[0], order[(ranks - 1) // 2], order[-1]
    kept = f"3 of {ranks:,} ranks: {slowest} whose ops take longest, {middle} in the middle, {fastest} the shortest"
    return [slowest, middle, fastest], kept


def _lanes(beside: Beside, side: Side, ranks: Sequence[int]) -> tuple[Lane, ...]:
    ops = beside.recorded.timeline.ops
    streams: dict[str, list[int]] = {"compute": []}
    for op in beside.schedule.ops:
        if not is_free(op):
            streams.setdefault(ops[op.id]["stream"], []).append(op.id)
    found = []
    for rank in ranks:
        for stream, places in streams.items():
            spans = tuple(
                _span(ops[k], k, rank, side)
                for k in places
                if side.timeline.end[k, rank] > side.timeline.start[k, rank]
            )
            found.append(Lane(rank, stream, spans))
    return tuple(found)


def _span(op: Mapping[str, Any], place: int, rank: int, side: Side) -> Span:
    start, end = float(side.timeline.start[place, rank]), float(side.timeline.end[place, rank])
    goes_on = max(start, end - float(side.took.seconds[place, rank]))
    waited = min(goes_on, max(start, float(side.took.waited[place, rank])))
    return Span(op["name"], op["kind"], start, waited if op["stream"] != "compute" else start, goes_on, end)


def write(lanes: Lanes, path: str, form: str) -> None:
    """Draw into a file, which takes its name only when all of it is written.

    Args:
        form: png, svg or html.
    Raises:
        ValueError: matplotlib is missing, or the file cannot be written.
    """
    from algorithms.ir.timeline import whole

    try:
        from sim.pictures import files, lanes_drawing
    except ImportError as error:
        raise ValueError(f"--{form} needs matplotlib, which cannot be imported: {error}") from error
    drawn = files.as_png if form == "png" else files.as_svg
    data = drawn(lambda: lanes_drawing.draw(lanes))
    if form == "html":
        from sim.pictures.page import lanes_page

        data = lanes_page(lanes, data.decode()).encode()
    with whole(path) as file:
        file.buffer.write(data)
