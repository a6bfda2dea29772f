"""Runs: the measurements of one test on one set of ranks, as seconds by size, and what they reach on large messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import log2
from pathlib import PurePath
from statistics import median

from topologies.logs.records import Log, Record, factor
from topologies.units import KiB, MiB, format_bytes

LARGE, STREAMED = 8 * MiB, MiB  # a largest message from which a rate is told; of streams of messages
FAR = 64  # of streams of messages, those of at least so small a part of the largest are looked at
NEAR = 4  # messages of at least a fourth of the largest are large
RISING = 0.05  # of the rate, for twice the size
SMALL = KiB  # messages up to which all time is latency ...
FEW = 8 * KiB  # ... or, of the smallest, up to this


@dataclass(frozen=True)
class Run:
    """Measurements that belong together.

    Attributes:
        points: seconds by size, the least of equal sizes, as what disturbs a run only adds time.
        lines: where each size stands.
        busbw: bytes/s of each size as the test defines it, in order of size; of one without sizes, its rate.
    """

    test: str
    ranks: int
    nodes: int | None
    algorithm: str
    devices: tuple[int, int] | None
    on_host: bool
    file: str
    points: dict[int, float] = field(default_factory=dict)
    lines: dict[int, int] = field(default_factory=dict)
    rates: tuple[tuple[float, int], ...] = ()  # of what has no size: busbw and line

    @property
    def name(self) -> str:
        """What was run, in words."""
        hosts = f" of {self.nodes} hosts" if self.nodes and self.nodes > 1 else " of one host" if self.nodes else ""
        by = f", {self.algorithm}" if self.algorithm else ""
        pair = f", devices {self.devices[0]} and {self.devices[1]}" if self.devices else ""
        return f"{self.test} on {self.ranks} ranks{hosts}{by}{pair}"

    @property
    def sizes(self) -> list[int]:
        """The sizes, ascending."""
        return sorted(self.points)

    def busbw(self, nbytes: int) -> float:
        """Return the bus bandwidth measured at a size, in bytes/s; of a pair what goes one way."""
        return factor(self.test, self.ranks) * nbytes / self.points[nbytes]

    @property
    def counting(self) -> list[int]:
        """The sizes that are fitted and simulated: of streams of messages, which hide latencies, the larger ones."""
        sizes = self.sizes
        return sizes if self.test not in ("bw", "bibw") else [nbytes for nbytes in sizes if nbytes * FAR >= sizes[-1]]

    @property
    def large(self) -> list[int]:
        """The sizes near the largest, which alone tells the rate; none where even that is small."""
        sizes = self.sizes
        if not sizes or sizes[-1] < (STREAMED if self.test in ("bw", "bibw") else LARGE):
            return []
        return [nbytes for nbytes in sizes if nbytes * NEAR >= sizes[-1]]

    @property
    def reached(self) -> float | None:
        """Bus bandwidth of the largest message; None where it is a small one."""
        if self.rates:
            return median(rate for rate, _ in self.rates)
        return self.busbw(self.large[-1]) if self.large else None

    @property
    def is_rising(self) -> bool:
        """Whether the rate of the largest message is clearly above that of the one before: larger ones reach more."""
        last = self.sizes[-2:]
        return len(last) > 1 and self.busbw(last[1]) > (1 + RISING * log2(last[1] / last[0])) * self.busbw(last[0])

    @property
    def small(self) -> list[int]:
        """The sizes that tell the latency; none where even the smallest is no small one, or messages overlap."""
        sizes = self.sizes
        if not sizes or sizes[0] > FEW or self.test in ("bw", "bibw"):
            return []
        return [nbytes for nbytes in sizes if nbytes <= max(SMALL, sizes[0])]

    def where(self, sizes: Sequence[int]) -> str:
        """Say where sizes stand: the file, its lines, and from which to which."""
        lines = sorted({self.lines[nbytes] for nbytes in sizes} if sizes else {line for _, line in self.rates})
        shown = f" line{'s' * (len(lines) > 1)} {lines[0]}" + (f"-{lines[-1]}" if len(lines) > 1 else "")
        span = "-".join(dict.fromkeys(format_bytes(nbytes) for nbytes in (min(sizes), max(sizes)))) if sizes else ""
        return f"{PurePath(self.file).name}{shown if lines[-1] else ''}{f' ({span})' if span else ''}"


def runs_of(log: Log, gpus: int, notes: list[str], per_node: int) -> list[Run]:
    """Return the runs of a log.

    Args:
        gpus: of the cluster; taken where a record does not say how many ranks there were.
        per_node: GPUs of one of its machines, for records that say machines alone.
    """
    found: dict[tuple[object, ...], Run] = {}
    best: dict[tuple[object, ...], list[tuple[float, int]]] = defaultdict(list)
    for record in log.records:
        ranks = record.ranks or (record.nodes * per_node if record.nodes else gpus)
        if ranks < 2:
            continue
        if record.ranks is None:
            said = f"{record.nodes} machines of {per_node}" if record.nodes else f"all {gpus} of the cluster"
            note = f"{PurePath(log.file).name}: ranks of {record.test} are not said: taken for {said}"
            notes += [note] * (note not in notes)
        key = record.test, ranks, record.nodes, record.algorithm, record.devices, record.on_host
        run = found.setdefault(key, Run(*key, file=log.file))
        nbytes, seconds = _point(record, ranks)
        if nbytes is None or seconds is None:
            best[key].append((record.busbw or 0.0, record.line))
        elif seconds < run.points.get(nbytes, float("inf")):
            run.points[nbytes], run.lines[nbytes] = seconds, record.line
    return [_with_rates(run, best.get(key, ())) for key, run in found.items()]


def _with_rates(run: Run, rates: Iterable[tuple[float, int]]) -> Run:
    """Return a run with the rates of what has no size."""
    return replace(run, rates=tuple(rates)) if not run.points else run


def _point(record: Record, ranks: int) -> tuple[int | None, float | None]:
    """Return size and seconds as nccl-tests counts them; of both ways at once, the size is what goes one way."""
    nbytes, seconds = record.nbytes, record.seconds
    if nbytes is None:
        return None, None
    if record.each:
        nbytes *= ranks
    if seconds is None and record.busbw:
        seconds = nbytes * factor(record.test, ranks) / record.busbw
    if record.test == "bibw" and seconds is not None:
        seconds *= 2
    return nbytes, seconds
