"""Masks: which key positions a query position may see. Every mask gives each query one interval of keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import numpy as np

from algorithms import unknown
from algorithms.ir.expr import Ints, ScheduleError

MASKS = ("full", "causal")  # those that have no number
SPELLINGS = (*MASKS, "window:W", "documents:L1+L2+...")
ANYWHERE = 2**62  # a position after all others
MOST_TOKENS, MOST_DOCUMENTS = 2**48, 2**20
SHORT = 60  # letters of a mask that a line of text has room for


class Interval(NamedTuple):
    """Positions first..last, both included; none where last < first."""

    first: Ints
    last: Ints


@dataclass(frozen=True, slots=True)
class Mask:
    """Which keys a query sees, by positions.

    Attributes:
        causal: none after the query itself.
        window: a query sees itself and the window - 1 positions before it (causal); 0: all of them.
        documents: tokens of each of the packed documents, which do not see each other; (): one for all.
    Raises:
        ScheduleError: a window that is not causal, a document without tokens, absurd numbers.
    """

    causal: bool = False
    window: int = 0
    documents: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.window <= MOST_TOKENS or (self.window and not self.causal):
            raise ScheduleError(f"a window is causal and of 1 to 2^48 tokens, got causal={self.causal}, {self.window}")
        if len(self.documents) > MOST_DOCUMENTS:
            raise ScheduleError(f"at most 2^20 documents can be packed, got {len(self.documents)}")
        for number, length in enumerate(self.documents):
            if not 1 <= length <= MOST_TOKENS:
                raise ScheduleError(f"a document has 1 to 2^48 tokens: number {number} of the mask has {length}")

    @property
    def plain(self) -> bool:
        """Whether it is full or causal over the whole sequence."""
        return not (self.window or self.documents)

    @property
    def reach(self) -> int:
        """How far before itself a query sees at most."""
        longest = max(self.documents, default=ANYWHERE)
        return min(longest, self.window or ANYWHERE) - 1

    def interval(self, rows: Ints) -> Interval:
        """The keys that the queries at `rows` see."""
        first, last = self._document(rows)
        if self.window:
            first = np.maximum(first, rows - (self.window - 1))
        return Interval(first, rows if self.causal else last)

    def seen_by(self, cols: Ints) -> Interval:
        """The queries that see the keys at `cols`."""
        first, last = self._document(cols)
        if self.window:
            last = np.minimum(last, cols + (self.window - 1))
        return Interval(cols if self.causal else first, last)

    def _document(self, positions: Ints) -> Interval:
        """First and last position of the document that each position is in."""
        if not self.documents:
            return Interval(np.zeros_like(positions), np.full_like(positions, ANYWHERE))
        ends = ends_of(self.documents)
        number = np.minimum(np.searchsorted(ends, positions, side="right"), len(ends) - 1)
        first = np.where(number > 0, ends[number - 1], 0)
        return Interval(first, ends[number] - 1)

    def __str__(self) -> str:
        inside = f"window:{self.window}" if self.window else "causal" if self.causal else "full"
        if not self.documents:
            return inside
        return self._inside() + "documents:" + "+".join(_repeated(self.documents))

    def _inside(self) -> str:
        return f"window:{self.window}," if self.window else "" if self.causal else "full,"

    @property
    def short(self) -> str:
        """The mask in a few words; of many documents only how many there are, and their lengths."""
        if len(self.documents) <= 4 or len(str(self)) <= SHORT:
            return str(self)
        lengths = f"{min(self.documents)} to {max(self.documents)} tokens"
        return f"{self._inside()}documents:({len(self.documents)} of {lengths})"


FULL, CAUSAL = Mask(), Mask(causal=True)


@lru_cache(maxsize=8)
def ends_of(documents: tuple[int, ...]) -> Ints:
    """The position after the last of each document."""
    return np.cumsum(np.array(documents, dtype=np.int64))


def parse_mask(text: str) -> Mask:
    """Read a mask: full, causal, window:W, documents:L1+L2+... (L*3 for three of L), or one of each with a comma.

    Raises:
        ScheduleError: unknown names, a window or a document of no tokens.
    """
    inside: list[str] = []
    documents: tuple[int, ...] = ()
    for part in text.split(","):
        name, colon, numbers = part.strip().partition(":")
        if name == "documents" and colon and not documents:
            documents = tuple(length for one in numbers.split("+") for length in _lengths(one, text))
        elif (name in MASKS and not colon) or (name == "window" and colon):
            inside.append(part.strip())
        else:
            raise ScheduleError(unknown("mask", text, SPELLINGS))
    if len(inside) > 1:
        raise ScheduleError(f"mask {_cut(text)} says both {inside[0]} and {inside[1]}: give one or the other")
    kind, _, window = (inside[0] if inside else "causal").partition(":")
    if kind != "window":
        return Mask(kind == "causal", 0, documents)
    return Mask(True, _count(window, "a window has 1 to 2^48 tokens", text), documents)


def _lengths(text: str, mask: str) -> list[int]:
    length, star, times = text.partition("*")
    repeat = _count(times, "a document is repeated 1 to 2^20 times", mask, MOST_DOCUMENTS) if star else 1
    return [_count(length, "a document has 1 to 2^48 tokens", mask)] * repeat


def _count(text: str, rule: str, mask: str, most: int = MOST_TOKENS) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20 and 1 <= int(digits) <= most):
        raise ScheduleError(f"{rule}: got {_cut(text)!r} in mask {_cut(mask)}")
    return int(digits)


def _cut(text: str) -> str:
    return text if len(text) <= SHORT else text[: SHORT - 3] + "..."


def _repeated(documents: Sequence[int]) -> list[str]:
    """Equal neighbours as length*times."""
    runs = [(length, len(list(same))) for length, same in groupby(documents)]
    return [f"{length}*{times}" if times > 1 else str(length) for length, times in runs]


def as_mask(mask: Mask | str) -> Mask:
    """Return a mask that may be given as text."""
    return parse_mask(mask) if isinstance(mask, str) else mask


def sees(mask: Mask, rows: Ints, cols: Ints) -> Ints:
    """Whether query position rows may see key position cols, broadcasting."""
    first, last = mask.interval(rows)
    return np.asarray((first <= cols) & (cols <= last))
