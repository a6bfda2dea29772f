"""Trace: a timeline as trace-event JSON, which Perfetto and chrome://tracing open.

A process is a rank, a thread is a stream (compute first), a complete event is an op, an arrow is what one rank
sends another in an op. Times are whole nanoseconds, so that neighbouring ops do not overlap by rounding.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from algorithms.ir.expr import Ints
from algorithms.ir.schedule import Op, Schedule
from algorithms.ir.timeline import Timeline, line, whole
from algorithms.ops import is_free, work
from algorithms.ways.transfers import transfers

MOST_EVENTS = 2_000_000  # what a viewer in a browser opens without trouble
CHUNK = 1_000  # events written at once
Event = dict[str, Any]
Pairs = tuple[Ints, Ints, Ints]  # source, destination, bytes


def write(
    path: str | os.PathLike[str],
    schedule: Schedule,
    timeline: Timeline,
    *,
    gpus: Sequence[str] = (),
    most: int = MOST_EVENTS,
) -> str:
    """Write the trace; the file appears whole or not at all.

    Args:
        gpus: name of the GPU that runs each rank.
        most: events to write at most; where there are more, the first ranks are kept that fit.
    Returns:
        A line that says what was written, or kept.
    Raises:
        ValueError: the timeline has no more than extents, or the file cannot be written.
    """
    if timeline.extent:
        raise ValueError(f"a trace needs the times of every rank: this timeline of {timeline.ranks} has extents only")
    sends = {op.id: _pairs(op, schedule, timeline.about.get("ways", {})) for op in schedule.ops if op.stream}
    ranks, total = _kept(schedule, sends, most)
    about = {
        key: timeline.about[key] for key in ("algorithm", "cluster", "mesh", "layout", "ways") if key in timeline.about
    }
    kept = f"{total} events of ranks 0 to {ranks - 1}" + (f" of {timeline.ranks}" if ranks < timeline.ranks else "")
    other = {"tool": "ringloom", "clock": timeline.clock, "kept": kept, **about}
    with whole(path) as file:
        file.write('{"displayTimeUnit": "ms", "otherData": ' + json.dumps(other) + ', "traceEvents": [\n')
        _write_all(file, events(schedule, timeline, sends, gpus, ranks))
        file.write("\n]}\n")
    return f"{path}: {kept}"


def _write_all(file: TextIO, found: Iterator[Event]) -> None:
    """Write events, a chunk a line: encoding many at once is several times faster than one by one."""
    separator = ""
    while chunk := list(islice(found, CHUNK)):
        file.write(separator + json.dumps(chunk, separators=(",", ":"))[1:-1])
        separator = ",\n"


def _kept(schedule: Schedule, sends: Mapping[int, Pairs], most: int) -> tuple[int, int]:
    """How many ranks fit, counted from 0, and how many events of theirs there are."""
    each = sum(not is_free(op) for op in schedule.ops)
    outer = [np.maximum(source, destination) for source, destination, _ in sends.values()]
    last = np.sort(np.concatenate([*outer, np.zeros(0, dtype=np.int64)]))  # an arrow is drawn if both its ends are
    counts = np.arange(1, schedule.mesh.size + 1)
    totals = counts * each + 2 * np.searchsorted(last, counts)
    ranks = max(1, int(np.searchsorted(totals, most, side="right")))
    return ranks, int(totals[ranks - 1])


def events(
    schedule: Schedule, timeline: Timeline, sends: Mapping[int, Pairs], gpus: Sequence[str], ranks: int
) -> Iterator[Event]:
    """List the events of the first ranks: names, then ops, then arrows."""
    threads: dict[str, int] = {"compute": 0}
    for op in schedule.ops:
        threads.setdefault(line(op)["stream"], len(threads))
    for rank in range(ranks):
        yield from _names(rank, gpus[rank] if rank < len(gpus) else "", threads)
    start, end = (np.rint(x * 1e9).astype(np.int64) for x in (timeline.start, timeline.end))
    arrow = 0
    for place, op in enumerate(schedule.ops):
        if is_free(op):
            continue
        named = line(op)
        where = {"tid": threads[named["stream"]], "cat": op.kind, "name": named["name"]}
        yield from _slices(op, schedule, where, start[place], end[place], timeline.sent[place], ranks)
        for source, destination, nbytes in zip(*sends.get(op.id, ()), strict=True):
            if max(source, destination) < ranks:
                yield from _arrow(arrow, where, int(source), int(destination), int(nbytes), start[place], end[place])
                arrow += 1


def _names(rank: int, gpu: str, threads: Mapping[str, int]) -> Iterator[Event]:
    """Name and order the rows of a rank."""
    shown = f"rank {rank}" + (f" ({gpu})" if gpu else "")
    yield {"ph": "M", "name": "process_name", "pid": rank, "args": {"name": shown}}
    yield {"ph": "M", "name": "process_sort_index", "pid": rank, "args": {"sort_index": rank}}
    for stream, thread in threads.items():
        shown = stream if stream == "compute" else f"communication {stream}"
        yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": thread, "args": {"name": shown}}
        yield {
            "ph": "M",
            "name": "thread_sort_index",
            "pid": rank,
            "tid": thread,
            "args": {"sort_index": thread},
        }


def _slices(
    op: Op, schedule: Schedule, where: Event, start: Ints, end: Ints, sent: npt.NDArray[np.int64], ranks: int
) -> Iterator[Event]:
    """One complete event a rank, with what the op computes or sends there."""
    flop = np.zeros(schedule.mesh.size)
    if op.stream is None:
        flop = np.broadcast_to(work(op, schedule.mesh.grid()).flop, schedule.mesh.shape).reshape(-1)
    for rank in range(ranks):
        args = {"op": op.id, "bytes": int(sent[rank]), "flop": int(flop[rank])}
        times = {"ts": start[rank] / 1000, "dur": (end[rank] - start[rank]) / 1000}
        yield {"ph": "X", "pid": rank, **where, **times, "args": args}


def _arrow(
    number: int, where: Event, source: int, destination: int, nbytes: int, start: Ints, end: Ints
) -> Iterator[Event]:
    """An arrow from the sender's op to the middle of what is left of the receiver's, so that it ends inside."""
    begin = max(start[source], start[destination])
    ends = begin + max(0, end[destination] - begin) // 2
    shared = {"id": number, "cat": "send", "name": "send", "tid": where["tid"]}
    yield {"ph": "s", "pid": source, "ts": start[source] / 1000, **shared, "args": {"bytes": nbytes}}
    yield {"ph": "f", "bp": "e", "pid": destination, "ts": ends / 1000, **shared}


def _pairs(op: Op, schedule: Schedule, ways: Mapping[str, str]) -> Pairs:
    """Who sends to whom in an op, and how many bytes in all its rounds."""
    ranks = np.arange(schedule.mesh.size, dtype=np.int64)
    keys, sizes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for moved in transfers(op, schedule.mesh, ways):
        sends = (moved.dst >= 0) & (moved.nbytes > 0) & (moved.dst != ranks)
        keys.append(ranks[sends] * schedule.mesh.size + moved.dst[sends])
        sizes.append(moved.nbytes[sends])
    pairs, place = np.unique(np.concatenate(keys), return_inverse=True)
    nbytes = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(nbytes, place, np.concatenate(sizes))
    source, destination = np.divmod(pairs, schedule.mesh.size)
    return source, destination, nbytes
