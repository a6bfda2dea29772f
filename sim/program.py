"""What the engine runs: bulk ops over all ranks on in-order streams, and their frozen tables."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sim.network import Network
from sim.rows import Row, row, table
from sim.state import COMPUTE, PERMUTE, Bools, Floats, Ints, Longs, Plan

Numbers = float | npt.ArrayLike | Row  # one for all ranks, or one a rank
MOST_WEIGHT = 1 << 40  # so that a link's total of millions is whole and exact
ROW_BYTES = 40  # of memory for a number of one rank: as given, as kept, as the engine has it, and whom it goes to
CODE_BYTES = 2  # for one that a code chooses


class Program:
    """A list of ops. Op o stands for the same op on every rank; it waits, rank by rank, for `after`.

    Arrays handed over are kept, not copied: do not change them later.
    """

    def __init__(self, ranks: int) -> None:
        """Begin a program of `ranks` ranks."""
        if ranks < 1:
            raise ValueError(f"ranks must be at least 1, got {ranks}")
        self.ranks = ranks
        self.kinds: list[int] = []
        self.streams: list[int] = []
        self.after: list[tuple[int, ...]] = []
        self.row_of: list[int] = []
        self.pattern_of: list[int] = []
        self.rows: list[Row] = []
        self.patterns: list[Ints] = []
        self.weights: list[Longs] = []  # of each pattern: one number, or one a rank
        self._row_ids: dict[int, int] = {}
        self._numbers: dict[float, int] = {}  # the rows that are one number
        self._pattern_ids: dict[object, int] = {}
        self._whole: set[int] = set()  # rows that are known to hold whole numbers
        self._held: list[object] = []  # keeps what _row_ids and _pattern_ids know by identity
        self._room = _free_memory()

    def compute(self, cost: Numbers, after: Sequence[int] = (), stream: int = 0) -> int:
        """Add a compute of `cost` seconds [ranks]; return its op id."""
        return self._add(COMPUTE, self._row(cost, "cost"), 0, after, stream)

    def permute(
        self,
        dst: npt.ArrayLike,
        nbytes: Numbers,
        after: Sequence[int] = (),
        stream: int = 1,
        weight: int | Longs = 1,
    ) -> int:
        """Add a permute: rank r sends nbytes[r] bytes to rank dst[r] (-1: to none); return its op id.

        It starts on a rank when the rank's inputs are there, its flow when both ends have started, and is
        done on a rank when its own send and its own receive are. A rank sends to itself in no time.
        A full link divides itself in proportion to `weight`, whole numbers, one or [ranks].
        """
        index = self._row(nbytes, "nbytes")
        if index not in self._whole:
            self._check(self.rows[index], lambda x: x == np.floor(x), "nbytes", "whole numbers")
            self._whole.add(index)
        return self._add(PERMUTE, index, self._pattern(dst, weight), after, stream)

    def _add(self, kind: int, row: int, pattern: int, after: Sequence[int], stream: int) -> int:
        op = len(self.kinds)
        if stream < 0:
            raise ValueError(f"stream must not be negative: op {op} has {stream}")
        if after and not (min(after) >= 0 and max(after) < op):
            raise ValueError(f"an op waits for earlier ops: op {op} has after={tuple(after)}")
        self.kinds.append(kind)
        self.row_of.append(row)
        self.pattern_of.append(pattern)
        self.after.append(tuple(after))
        self.streams.append(stream)
        return op

    def _row(self, values: Numbers, name: str) -> int:
        """Return the row of `values`; equal numbers, and the same array, share one."""
        known = self._row_ids.get(id(values))
        if known is not None:
            return known
        new = values if isinstance(values, Row) else row(values)
        shape = np.shape(new.values if new.code is None else new.code)
        if shape not in ((), (self.ranks,)):
            raise ValueError(f"{name} must be one number or one a rank ({self.ranks}), got shape {shape}")
        self._check(new, lambda x: np.isfinite(x) & (x >= 0), name, "finite and not negative")
        index = self._numbers.setdefault(float(new.values), len(self.rows)) if new.is_shared else len(self.rows)
        if index == len(self.rows):
            self._make_room(new)
            self.rows.append(new)
        if not isinstance(values, int | float):
            self._held.append(values)
            self._row_ids[id(values)] = index
        return index

    def _make_room(self, row: Row) -> None:
        """Refuse what would not fit, before it is tried."""
        each = 0 if row.is_shared else ROW_BYTES if row.code is None else CODE_BYTES
        self._room -= each * self.ranks
        if self._room < 0:
            raise no_memory(len(self.rows), self.ranks, each)

    def _check(self, row: Row, fine: Callable[[Floats], Bools], name: str, rule: str) -> None:
        """Raise a ValueError that names the first rank that is not fine."""
        if not np.all(fine(row.values)):
            wrong = np.atleast_1d(~fine(row.at()))
            if wrong.any():
                rank = int(wrong.argmax())
                value = np.atleast_1d(row.at())[rank]
                raise ValueError(f"{name} must be {rule}: op {len(self.kinds)} has {value:g} on rank {rank}")

    def _pattern(self, dst: npt.ArrayLike, weight: int | Longs) -> int:
        """Return the row of `dst`; equal patterns of equal weights share one."""
        known = self._pattern_ids.get((id(dst), id(weight)))
        if known is not None:
            return known
        pattern = np.asarray(dst, np.int32)
        _check_pattern(pattern, self.ranks, len(self.kinds))
        weights = _weights(weight, self.ranks, len(self.kinds))
        index = self._pattern_ids.setdefault((pattern.tobytes(), weights.tobytes()), len(self.patterns))
        if index == len(self.patterns):
            self.patterns.append(pattern)
            self.weights.append(weights)
        self._held += [dst, weight]
        self._pattern_ids[id(dst), id(weight)] = index
        return index


def no_memory(rows: int, ranks: int, each: int) -> ValueError:
    """The error that memory holds no more than so many rows."""
    return ValueError(
        f"no memory for more than {rows} steps of {ranks} ranks, {each} bytes each: "
        "use fewer ranks, or ways of fewer rounds, as all_reduce=doubling"
    )


def check_dense(rows: int, ranks: int) -> None:
    """Refuse rows of a number a rank that would not fit, before they are made."""
    if rows * ranks * 8 > (room := _free_memory()):
        raise no_memory(room // (ranks * 8), ranks, 8)


def _free_memory() -> int:
    """Return the bytes of memory that a program may take: what the system says it can give."""
    try:
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    if found:
        return int(found[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**34


def _check_pattern(dst: Ints, ranks: int, op: int) -> None:
    """Raise a ValueError unless every rank sends to at most one rank and receives from at most one."""
    if dst.shape != (ranks,):
        raise ValueError(f"dst must have one entry a rank ({ranks}): op {op} has shape {dst.shape}")
    if dst.min() < -1 or dst.max() >= ranks:
        raise ValueError(f"dst must be -1 (none) or 0 to {ranks - 1}: op {op} has {dst.min()} to {dst.max()}")
    sends = np.bincount(dst[dst >= 0], minlength=ranks)
    if sends.max() > 1:
        raise ValueError(f"dst must name a rank once: op {op} names {sends.argmax()} {sends.max()} times")


def _weights(weight: int | Longs, ranks: int, op: int) -> Longs:
    """Return weights as an array, of one number or of [ranks], checked."""
    weights = np.asarray(weight)
    if weights.shape not in ((), (ranks,)) or weights.dtype.kind not in "iu":
        raise ValueError(f"weight must be one whole number or one a rank ({ranks}): op {op} has {weight!r}")
    if weights.min() < 1 or weights.max() > MOST_WEIGHT:
        raise ValueError(f"weight must be 1 to {MOST_WEIGHT}: op {op} has {weights.min()} to {weights.max()}")
    return weights.astype(np.int64)


@dataclass(frozen=True)
class Frozen:
    """A program tied to a network: what the engine runs, as often as it is asked to.

    Attributes:
        rows: the plan's rows, kept as short as they are.
        bare: the plan without its rows.
        capacity: [links + 1] of the links of the plan's routes; the last is infinite.
        label: how an op is named to people; None: by its number and stream.
    """

    ranks: int
    network: Network
    rows: tuple[Row, ...]
    bare: Plan
    capacity: Floats
    label: Callable[[int], str] | None = None

    def name(self, op: int) -> str:
        """Name an op in a message."""
        if self.label is not None:
            return self.label(op)
        stream, _ = np.argwhere(self.bare.order == op)[0]
        return f"op {op} on stream {stream}"

    @cached_property
    def plan(self) -> Plan:
        """The plan whole: with [rows, ranks] numbers.

        Raises:
            ValueError: they do not fit the memory.
        """
        check_dense(len(self.rows), self.ranks)
        return self.bare._replace(rows=table(self.rows, self.ranks))


def freeze(program: Program, network: Network) -> Frozen:
    """Turn `program` into tables, with the routes of its flows on `network`.

    Raises:
        ValueError: when the network places fewer ranks than the program has, or has no route.
    """
    if program.ranks > network.ranks:
        raise ValueError(f"program needs {program.ranks} ranks: cluster {network.name} has {network.ranks} GPUs placed")
    order, length, position = _positions(program.streams)
    need_stream, need_position = _needs(program, position)
    wake_start, wake = _wakes(program, need_stream, need_position, order)
    dst, src = _ends(program)
    route, latency = _routes(dst, network)
    plan = Plan(
        kind=np.array(program.kinds, np.int8),
        pattern=np.array(program.pattern_of, np.int32),
        row=np.array(program.row_of, np.int32),
        rows=np.zeros((0, program.ranks)),
        order=order,
        length=length,
        need_stream=need_stream,
        need_position=need_position,
        wake_start=wake_start,
        wake=wake,
        dst=dst,
        src=src,
        route=route,
        weight=(route != network.pad).astype(np.int32),
        claim=_claims(program),
        latency=latency,
    )
    return Frozen(program.ranks, network, tuple(program.rows), plan, network.capacity)


def _positions(streams: list[int]) -> tuple[Ints, Ints, list[int]]:
    """Return the op at each position of each stream, the streams' lengths, and each op's position."""
    length = np.bincount(np.array(streams, np.int64), minlength=1).astype(np.int32)
    order = np.full((len(length), max(1, int(length.max()))), -1, np.int32)
    filled, position = [0] * len(length), []
    for op, stream in enumerate(streams):
        order[stream, filled[stream]] = op
        position.append(filled[stream])
        filled[stream] += 1
    return order, length, position


def _needs(program: Program, position: list[int]) -> tuple[Ints, Ints]:
    """Return what each op waits for, [ops, needs]: a stream and the last position there that must pass.

    Its own stream is in order, so it is not listed; position -1 has always passed.
    """
    latest: list[dict[int, int]] = []
    for op, after in enumerate(program.after):
        latest.append({})
        for earlier in after:
            stream = program.streams[earlier]
            if stream != program.streams[op]:
                latest[op][stream] = max(position[earlier], latest[op].get(stream, -1))
    width = max([1, *map(len, latest)])
    need_stream = np.zeros((len(latest), width), np.int32)
    need_position = np.full((len(latest), width), -1, np.int32)
    for op, needs in enumerate(latest):
        for k, stream in enumerate(sorted(needs)):
            need_stream[op, k], need_position[op, k] = stream, needs[stream]
    return need_stream, need_position


def _wakes(program: Program, need_stream: Ints, need_position: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Return, for each op, the streams in which passing it may let an op start: its own, and waiting ones."""
    wakes = [{stream} for stream in program.streams]
    for op, k in zip(*np.nonzero(need_position >= 0), strict=True):
        wakes[order[need_stream[op, k], need_position[op, k]]].add(program.streams[op])
    start = np.cumsum([0, *map(len, wakes)], dtype=np.int32)
    return start, np.array([stream for streams in wakes for stream in sorted(streams)], np.int32)


def _ends(program: Program) -> tuple[Ints, Ints]:
    """Return receivers and senders, [patterns, ranks]; a send to oneself is none at all."""
    ranks = np.arange(program.ranks, dtype=np.int32)
    dst = np.stack(program.patterns) if program.patterns else np.full((1, program.ranks), -1, np.int32)
    dst = np.where(dst == ranks, np.int32(-1), dst)
    src = np.full_like(dst, -1)
    pattern, sender = np.nonzero(dst >= 0)
    src[pattern, dst[pattern, sender]] = sender
    return dst, src


def _claims(program: Program) -> Longs:
    """Return the weight of each flow."""
    claims = np.ones((max(1, len(program.weights)), program.ranks), np.int64)
    for pattern, weights in enumerate(program.weights):
        claims[pattern] = weights
    return claims.ravel()


def _routes(dst: Ints, network: Network) -> tuple[Ints, Floats]:
    """Return each flow's links, [flows, hops], and the sum of their latencies."""
    sender = np.broadcast_to(np.arange(dst.shape[1]), dst.shape).ravel()
    receiver = np.where(dst.ravel() >= 0, dst.ravel(), sender)
    route = np.ascontiguousarray(network.route(sender, receiver), np.int32)
    return route, network.latency[route].sum(axis=1)
