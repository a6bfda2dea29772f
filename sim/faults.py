"""Faults as people type them: what is slow, down, busy or late, where, how much, and from when to when."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from topologies.units import format_seconds, ms, ns, us

REROUTE_DELAY = 10 * ms
REROUTE_ASSUMPTION = (
    "after a link goes down its traffic stands still until it is routed anew, {} later (a port's failure is noticed "
    "within milliseconds, RFC 7938 section 7.1; the rest is assumed)"
)
WHERE = {"slow": ("gpu", "nic", "link"), "down": ("nic", "link"), "late": ("gpu",), "background": ()}
_TIME = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(s|ms|us|ns)")
_UNITS = {"s": 1.0, "ms": ms, "us": us, "ns": ns}


@dataclass(frozen=True)
class Fault:
    """One thing that is not as planned.

    Attributes:
        what: slow, down, background or late.
        where: gpu:NUMBER or gpu:NAME, nic:NAME, link:A-B (both directions of a cable); of background a link class.
        amount: slow: the share of its speed that is left. background: the share taken. late: seconds. down: 0.
        begin, end: seconds; from the start on, and for good, unless given.
    """

    what: str
    where: str
    amount: float = 0.0
    begin: float = 0.0
    end: float = math.inf

    def __post_init__(self) -> None:
        if self.what not in WHERE:
            raise ValueError(f"no fault {self.what!r}: expected one of {', '.join(WHERE)}")
        _check_where(self)
        _check_amount(self)
        if not 0 <= self.begin < self.end:
            raise ValueError(f"a time range begins before it ends: {self} does not")

    @property
    def kind(self) -> str:
        """Kind of thing: gpu, nic or link."""
        return self.where.partition(":")[0]

    @property
    def name(self) -> str:
        """Name of the thing."""
        return self.where.partition(":")[2]

    def holds(self, now: float) -> bool:
        """Whether it is so at an instant."""
        return self.begin <= now < self.end

    def __str__(self) -> str:
        amount = {"late": format_seconds(self.amount), "down": ""}.get(self.what, f"{self.amount:g}")
        end = "" if self.end == math.inf else format_seconds(self.end)
        when = f" from {format_seconds(self.begin)}" + (f" to {end}" if end else " on") if self.begin or end else ""
        return f"{self.what} {self.where}{f'={amount}' if amount else ''}{when}"


def parse(what: str, text: str) -> Fault:
    """Read gpu:17=0.7, link:node3/nic2-rail2@2ms..5ms, nic=0.3 or gpu:5=2ms as a fault of kind `what`.

    Raises:
        ValueError: it is written otherwise, a factor or a time is absurd, or a time range runs backwards.
    """
    body, at, span = text.partition("@")
    where, equals, amount = body.rpartition("=") if what != "down" else (body, "=", "0")
    if not equals:
        raise ValueError(f"--{what} takes {FORMS[what]}: got {text!r}")
    if what == "late" and at:
        raise ValueError(f"--late takes {FORMS['late']}: got {text!r}")
    begin, end = _span(what, text, span) if at else (0.0, math.inf)
    value = parse_seconds(amount, f"--{what} {text}") if what == "late" else _number(what, text, amount)
    return Fault(what, where.strip(), value, begin, end)


FORMS = {
    "slow": "gpu:17=0.7, nic:NAME=0.5 or link:A-B=0.5, and @2ms..5ms where it is so for a while",
    "down": "link:A-B or nic:NAME, and @2ms..5ms where it is so for a while",
    "background": "CLASS=SHARE, as nic=0.3",
    "late": "gpu:5=2ms",
}


def parse_all(texts: Iterable[tuple[str, str]]) -> tuple[Fault, ...]:
    """Read several (what, text)."""
    return tuple(parse(what, text) for what, text in texts)


def parse_seconds(text: str, what: str) -> float:
    """Read a time with its unit: 2ms, 500us, 0.1s.

    Raises:
        ValueError: it has none, or is no number.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{what}: a time is a number with s, ms, us or ns, got {text!r}")
    return float(match[1]) * _UNITS[match[2]]


def _span(what: str, text: str, span: str) -> tuple[float, float]:
    first, dots, last = span.partition("..")
    begin = parse_seconds(first, f"--{what} {text}")
    end = parse_seconds(last, f"--{what} {text}") if dots and last else math.inf
    if end <= begin:
        raise ValueError(f"--{what} {text}: the time range {span} runs backwards, or is empty")
    return begin, end


def _number(what: str, text: str, amount: str) -> float:
    try:
        return float(amount)
    except ValueError:
        raise ValueError(f"--{what} takes {FORMS[what]}: got {text!r}") from None


def _check_where(fault: Fault) -> None:
    """Refuse a kind of thing to which this cannot happen."""
    kinds = WHERE[fault.what]
    if kinds and (fault.kind not in kinds or not fault.name):
        raise ValueError(f"--{fault.what} takes {FORMS[fault.what]}: got {fault.where!r}")


def _check_amount(fault: Fault) -> None:
    """Refuse a factor of zero or below, and one that is no slowdown."""
    if fault.what == "slow" and not 0 < fault.amount <= 1:
        raise ValueError(f"--slow {fault.where}: a factor is above 0 and at most 1, got {fault.amount:g}")
    if fault.what == "background" and not 0 < fault.amount < 1:
        raise ValueError(f"--background {fault.where}: a share is above 0 and below 1, got {fault.amount:g}")
    if fault.what == "late" and not 0 <= fault.amount < math.inf:
        raise ValueError(f"--late {fault.where}: seconds are finite and not negative, got {fault.amount:g}")
