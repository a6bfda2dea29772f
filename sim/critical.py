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

from sim.engine import Spans
from sim.program import Frozen
from sim.refine import flows_by_link
from sim.state import COMPUTE, PERMUTE, Floats, Longs

SMALLEST = 1e-300  # bytes/s: a link that is down all the time
EXACT = 1e-6  # relative: a flow this close to its narrowest link's capacity had that link to itself
Capacity = Callable[[int, float, float], float]  # bytes/s of a link, on average from begin to end
Name = Callable[[int], tuple[str, str]]  # an op's kind and name, and what bounds it where it computes


class Piece(NamedTuple):
    """A stretch of the path.

    Attributes:
        begin, end: seconds.
        bound: compute, launch, reduction, latency, late start, or a link, with how many flows shared it.
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
        spans: of every rank.
        name: gives what bounds an op that computes, and the op's name.
        capacity: where it changes during the run.
    """
    sharing = _Sharing(frozen, spans, capacity or (lambda link, _begin, _end: float(frozen.capacity[link])))
    pieces = list(_Walk(frozen, spans, name, sharing).pieces())
    crossings = sum(a.rank != b.rank for a, b in pairwise(pieces))
    return Path(tuple(_merged(pieces[::-1])), crossings)


class _Walk:
    def __init__(self, frozen: Frozen, spans: Spans, name: Name, sharing: _Sharing) -> None:
        self.frozen, self.plan, self.name = frozen, frozen.bare, name
        self.start, self.end = spans.start, spans.end
        self.sharing = sharing
        self.position = np.zeros(len(self.plan.kind), np.int64)
        self.stream = np.zeros(len(self.plan.kind), np.int64)
        for stream, length in enumerate(self.plan.length):
            ops = self.plan.order[stream, :length]
            self.position[ops], self.stream[ops] = np.arange(length), stream

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces, last first; those of no length are left out."""
        op, rank = divmod(int(self.end.argmax()), self.end.shape[1])
        while op >= 0:
            if self.plan.kind[op] == COMPUTE:
                bound, named = self.name(op)
                yield from _piece(self.start[op, rank], self.end[op, rank], bound, named, rank)
                at = float(self.start[op, rank])
            else:
                at, rank = yield from self._flow(op, rank)
            op = self._before(op, rank, at)

    def _flow(self, op: int, rank: int) -> Generator[Piece, None, tuple[float, int]]:
        """Yield the pieces of the flow that ended last here; return when it began, and who let it begin."""
        end = float(self.end[op, rank])
        flows = self._candidates(op, rank, end)
        if not flows:  # nothing sent and nothing received: passed at once
            return float(self.start[op, rank]), rank
        began, sender, receiver = max(flows)
        flow = int(self.plan.pattern[op]) * self.frozen.ranks + sender
        arrived = min(end, began + float(self.plan.latency[flow]))
        _, named = self.name(op)
        nbytes = float(np.broadcast_to(self.frozen.rows[self.plan.row[op]].at(), self.frozen.ranks)[sender])
        if end > arrived:
            yield from _piece(arrived, end, self.sharing.bound(flow, arrived, end, nbytes), named, receiver)
        yield from _piece(began, arrived, "latency", named, receiver)
        return began, sender if self.start[op, sender] >= self.start[op, receiver] else receiver

    def _candidates(self, op: int, rank: int, end: float) -> list[tuple[float, int, int]]:
        """The flows of a rank's op that may have ended it: (began, sender, receiver)."""
        pattern = self.plan.pattern[op]
        ends = (rank, int(self.plan.dst[pattern, rank])), (int(self.plan.src[pattern, rank]), rank)
        flows = [(s, r) for s, r in ends if s >= 0 and r >= 0]
        late = [(s, r) for s, r in flows if min(self.end[op, s], self.end[op, r]) >= end]
        return [(float(max(self.start[op, s], self.start[op, r])), s, r) for s, r in late or flows]

    def _before(self, op: int, rank: int, at: float) -> int:
        """The op that set this one off: the latest to end of those it waited for; -1 at the start."""
        found = [
            int(self.plan.order[stream, position])
            for stream, position in zip(self.plan.need_stream[op], self.plan.need_position[op], strict=True)
            if position >= 0
        ]
        if self.position[op] > 0:
            found.append(int(self.plan.order[self.stream[op], self.position[op] - 1]))
        ended = [earlier for earlier in found if self.end[earlier, rank] == at]
        return ended[0] if ended and at > 0 else -1


class _Sharing:
    """How many flows were on a link while one was."""

    def __init__(self, frozen: Frozen, spans: Spans, capacity: Capacity) -> None:
        self.frozen, self.spans, self.plan, self.capacity = frozen, spans, frozen.bare, capacity
        permutes = np.flatnonzero(self.plan.kind == PERMUTE)
        self.first = spans.start[permutes].min(1) if len(permutes) else np.zeros(0)
        self.last = spans.end[permutes].max(1) if len(permutes) else np.zeros(0)
        self.permutes = permutes

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
        start, over = self.spans.start[op], self.spans.end[op]
        flows = self.plan.pattern[op] * self.frozen.ranks + senders
        began = np.maximum(start[senders], start[receivers]) + self.plan.latency[flows]
        ended = np.minimum(over[senders], over[receivers])
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
