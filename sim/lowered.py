"""Lowered: the program that a schedule has become, and which of its ops carry each op of the schedule."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from algorithms.ir.schedule import Schedule
from algorithms.ir.timeline import line
from sim.binding import BINDS
from sim.program import Program
from sim.rows import Row
from sim.state import Floats

LATE = "late start"


@dataclass
class Lowered:
    """A program, and which of its ops carry each op of the schedule.

    Attributes:
        first, last: program op that starts and that ends each schedule op; -1 for a load or a view.
        shown: program ops that end what a view shows, by the view's place.
        native: schedule ops that the library carries out in its own way, by id.
        messages: program ops that are what messages take beyond their links.
        sent: bytes that each rank sends in each schedule op: rows to be added up.
        flop: of each schedule op on all ranks together.
        busy: seconds of the compute stream, (P,), or one number for all. binds: of the streams of all ranks by what
            binds, [BINDS].
    """

    schedule: Schedule
    program: Program
    first: list[int] = field(init=False)
    last: list[int] = field(init=False)
    sent: list[tuple[Row, ...]] = field(init=False)
    flop: list[float] = field(init=False)
    busy: Floats = field(default_factory=lambda: np.zeros(()))
    binds: Floats = field(default_factory=lambda: np.zeros(len(BINDS)))
    shown: dict[int, tuple[int, ...]] = field(default_factory=dict)
    native: set[int] = field(default_factory=set)
    messages: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Begin with no op lowered."""
        ops = len(self.schedule.ops)
        self.first, self.last, self.sent, self.flop = [-1] * ops, [-1] * ops, [()] * ops, [0.0] * ops

    def place(self, op: int) -> int:
        """The place in the schedule of the op that a program op is part of; -1 for what comes before all."""
        begun = bisect_right(self._begins, (op, len(self.first))) - 1
        return self._begins[begun][1] if begun >= 0 else -1

    @cached_property
    def _begins(self) -> list[tuple[int, int]]:
        return sorted((first, place) for place, first in enumerate(self.first) if first >= 0)

    def label(self, op: int) -> str:
        """Name a program op by the schedule's op that it is part of, and its stream."""
        place = self.place(op)
        if place < 0:
            return LATE
        named = line(self.schedule.ops[place])
        return f"{named['name']} on stream {named['stream']}"

    def bound_and_name(self, op: int) -> tuple[str, str]:
        """What a program op is where it computes, and the name of the schedule's op that it is part of."""
        place = self.place(op)
        if place < 0:
            return LATE, LATE
        of = self.schedule.ops[place]
        inside = "launch" if op == self.first[place] else "library" if of.id in self.native else "reduction"
        inside = "message" if op in self.messages else inside
        return "compute" if of.stream is None else inside, f"{of.kind} {of.id}"
