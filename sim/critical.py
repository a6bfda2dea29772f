"""The critical path: from the last end back to the start, what each piece of the time was spent on.

At every instant one op on one rank decides. A compute op that ends last was set off by whatever ended just when it
started; a flow that ends last was set off by the later of its two ends, and so the path moves to another rank.
The pieces touch: the first begins at 0, each begins where the one before ends, the last ends with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sim.program import Frozen
from sim.refine import flows_by_link
from sim.spans import Spans
from sim.state import COMPUTE, PERMUTE, Floats, Ints, Longs, Plan

SMALLEST = 1e-300  # bytes/s: a link that is down all the time
EXACT = 1e-6  # relative: a flow this close to its narrowest link's capacity had that link to itself
Capacity = Callable[[int, float, float], float]  # bytes/s of a link, on average from begin to end
Name = Callable[[int], tuple[str, str]]  # an op's kind and name, and what bounds it where it computes


class Piece(NamedTuple):
    """A stretch of the path.

    Attributes:
        begin, end: seconds.
        bound: compute, launch, reduction, latency, late start, or a link, with how many flows shared it; where costs
            were measured also message, what one takes beyond its links, and library, a collective of its own.
        op: the op, or the first and the last of several alike. rank: the rank it ran on; of a flow its receiver.
    """

    begin: float
    end: float
    bound: str
    op: str
    rank: int

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end - self.begin


class Path(NamedTuple):
    """The whole path, earliest piece first, and how often it moves from one rank to another that waited for it."""

    pieces: tuple[Piece, ...]
    crossings: int

    def totals(self) -> list[tuple[str, float]]:
        """Seconds by what bound them, most first."""
        sums: dict[str, float] = {}
        for piece in self.pieces:
            sums[piece.bound] = sums.get(piece.bound, 0.0) + piece.seconds
        return sorted(sums.items(), key=lambda row: -row[1])

    def longest(self, most: int) -> list[Piece]:
        """The longest pieces."""
        return sorted(self.pieces, key=lambda piece: -piece.seconds)[:most]

    def record(self, most: int | None = None) -> dict[str, Any]:
        """The path as JSON has it; the longest pieces only where there are more than `most`."""
        kept = self.pieces if most is None or len(self.pieces) <= most else self.longest(most)
        return {
            "pieces": [{**piece._asdict(), "seconds": piece.seconds} for piece in sorted(kept)],
            "of_pieces": len(self.pieces),
            "crossings": self.crossings,
            "totals": [{"bound": bound, "seconds": seconds} for bound, seconds in self.totals()],
        }


def critical_path(frozen: Frozen, spans: Spans, name: Name, capacity: Capacity | None = None) -> Path:
    """Walk back from the last end.

    Args:
        frozen: the program, not folded; spans: of every rank, or of every class of ranks that it was folded by.
        name: gives what bounds an op that computes, and the op's name.
        capacity: where it changes during the run.
    """
    sharing = _Sharing(frozen, spans, capacity or (lambda link, _begin, _end: float(frozen.capacity[link])))
    pieces = list(_Walk(frozen, spans, name, sharing).pieces())
    crossings = sum(a.rank != b.rank for a, b in pairwise(pieces))
    return Path(tuple(_merged(pieces[::-1])), crossings)


class _Walk:
    def __init__(self, frozen: Frozen, spans: Spans, name: Name, sharing: _Sharing) -> None:
        self.frozen, self.plan, self.spans, self.name = frozen, frozen.bare, spans, name
        self.sharing, self.last, self.earlier = sharing, spans.last.tolist(), _earlier(frozen.bare)

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces, last first; those of no length are left out."""
        op = int(self.spans.last.argmax())
        rank = int(self._all(self.spans.times(op)[1]).argmax())
        while op >= 0:
            if self.plan.kind[op] == COMPUTE:
                bound, named = self.name(op)
                begin, end = self._at(op, rank)
                yield from _piece(begin, end, bound, named, rank)
                at = begin
            else:
                at, rank = yield from self._flow(op, rank)
            op = self._before(op, rank, at)

    def _all(self, times: Floats) -> Floats:
        """The times of all ranks, of those by column."""
        return times if self.spans.rank_class is None else times[self.spans.rank_class]

    def _at(self, op: int, rank: int) -> tuple[float, float]:
        """When an op starts and ends on a rank."""
        (start, end), column = self.spans.times(op), self.spans.column(rank)
        return float(start[column]), float(end[column])

    def _flow(self, op: int, rank: int) -> Generator[Piece, None, tuple[float, int]]:
        """Yield the pieces of the flow that ended last here; return when it began, and who let it begin."""
        start, end = self._at(op, rank)
        flows = self._candidates(op, rank, end)
        if not flows:  # nothing sent and nothing received: passed at once
            return start, rank
        began, sender, receiver = max(flows)
        flow = int(self.plan.pattern[op]) * self.frozen.ranks + sender
        arrived = min(end, began + float(self.plan.latency[flow]))
        _, named = self.name(op)
        nbytes = float(self.frozen.rows[self.plan.row[op]].at(np.array([sender])).sum())
        if end > arrived:
            yield from _piece(arrived, end, self.sharing.bound(flow, arrived, end, nbytes), named, receiver)
        yield from _piece(began, arrived, "latency", named, receiver)
        return began, sender if self._at(op, sender)[0] >= self._at(op, receiver)[0] else receiver

    def _candidates(self, op: int, rank: int, end: float) -> list[tuple[float, int, int]]:
        """The flows of a rank's op that may have ended it: (began, sender, receiver)."""
        pattern = self.plan.pattern[op]
        ends = (rank, int(self.plan.dst[pattern, rank])), (int(self.plan.src[pattern, rank]), rank)
        flows = [(self._at(op, s), self._at(op, r), s, r) for s, r in ends if s >= 0 and r >= 0]
        late = [flow for flow in flows if min(flow[0][1], flow[1][1]) >= end]
        return [(max(sending[0], receiving[0]), s, r) for sending, receiving, s, r in late or flows]

    def _before(self, op: int, rank: int, at: float) -> int:
        """The op that set this one off: the latest to end of those it waited for; -1 at the start."""
        for earlier in self.earlier[op].tolist() if at > 0 else ():
            if earlier >= 0 and self.last[earlier] >= at == self._at(earlier, rank)[1]:
                return int(earlier)
        return -1


def _earlier(plan: Plan) -> Ints:
    """The ops that each waits for, the one before it on its stream last, [ops, needs + 1]; -1: none."""
    needed = np.where(plan.need_position >= 0, plan.order[plan.need_stream, plan.need_position], -1)
    before = np.full(len(plan.kind), -1, np.int32)
    for stream, length in enumerate(plan.length):
        ops = plan.order[stream, :length]
        before[ops[1:]] = ops[:-1]
    return np.column_stack([needed, before])


class _Sharing:
    """How many flows were on a link while one was."""

    def __init__(self, frozen: Frozen, spans: Spans, capacity: Capacity) -> None:
        self.frozen, self.spans, self.plan, self.capacity = frozen, spans, frozen.bare, capacity
        self.permutes = np.flatnonzero(self.plan.kind == PERMUTE)
        self.first, self.last = spans.first[self.permutes], spans.last[self.permutes]

    def bound(self, flow: int, begin: float, end: float, nbytes: float) -> str:
        """Name the link that bound a flow, and how many shared it."""
        links = [int(k) for k in self.plan.route[flow] if self.frozen.capacity[k] < np.inf]
        if not links:
            return "a link"
        left = {link: self.capacity(link, begin, end) for link in links}
        narrow = min(links, key=lambda link: left[link])
        if nbytes >= left[narrow] * (end - begin) * (1 - EXACT):
            return self._named(narrow, 1, left[narrow])
        counts = {link: self._mean_flows(link, begin, end) for link in links}
        link = max(links, key=lambda link: counts[link] / max(left[link], SMALLEST))
        return self._named(link, max(1, round(counts[link])), left[link])

    def _named(self, link: int, flows: int, left: float) -> str:
        tail, head = self.frozen.network.links[link]
        less = left < self.frozen.network.capacity[link] * (1 - EXACT)
        named = f"link {tail} -> {head}" + (", slow or down" if less else "")
        return named + (f", shared by {flows} flows" if flows > 1 else "")

    def _mean_flows(self, link: int, begin: float, end: float) -> float:
        """Flows on a link, on average over a time."""
        total = 0.0
        patterns, senders = self._flows_on(link)
        for op in self.permutes[(self.first < end) & (self.last > begin)]:
            here = senders[patterns == self.plan.pattern[op]]
            total += float(self._overlap(int(op), here, begin, end).sum())
        return total / (end - begin)

    def _overlap(self, op: int, senders: Longs, begin: float, end: float) -> Floats:
        """Seconds for which each sender's flow was under way."""
        receivers = self.plan.dst[self.plan.pattern[op], senders]
        start, over = self.spans.times(op)
        flows = self.plan.pattern[op] * self.frozen.ranks + senders
        of = self.spans.rank_class
        one, other = (senders, receivers) if of is None else (of[senders], of[receivers])
        began = np.maximum(start[one], start[other]) + self.plan.latency[flows]
        ended = np.minimum(over[one], over[other])
        return np.asarray(np.maximum(0.0, np.minimum(ended, end) - np.maximum(began, begin)))

    def _flows_on(self, link: int) -> tuple[Longs, Longs]:
        """Pattern and sender of every flow whose route has a link."""
        start, flows = self._by_link
        patterns, senders = np.divmod(flows[start[link] : start[link + 1]], self.frozen.ranks)
        return patterns, senders

    @cached_property
    def _by_link(self) -> tuple[Longs, Longs]:
        start, flows = flows_by_link(self.plan.dst, self.plan.route, len(self.frozen.capacity) - 1)
        return start, flows


def _piece(begin: float, end: float, bound: str, op: str, rank: int) -> Iterator[Piece]:
    """A piece, unless it has no length."""
    if end > begin:
        yield Piece(float(begin), float(end), bound, op, rank)


def _merged(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Join neighbours that are bound alike, in ops of one kind on one rank."""
    kept: Piece | None = None
    for piece in pieces:
        if kept is None or _alike(kept) != _alike(piece):
            if kept is not None:
                yield kept
            kept = piece
        else:
            first = kept.op.partition(" to ")[0]
            kept = kept._replace(end=piece.end, op=first if first == piece.op else f"{first} to {piece.op}")
    if kept is not None:
        yield kept


def _alike(piece: Piece) -> tuple[str, str, int]:
    return piece.bound, piece.op.partition(" ")[0], piece.rank
