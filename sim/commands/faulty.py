"""The options that say what is slow, down, busy or late; `compare` and `simulate` have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from algorithms.options import as_record

if TYPE_CHECKING:
    from sim.faults import Fault

_Command = TypeVar("_Command", bound=Callable[..., Any])
KINDS = ("slow", "down", "background", "late")


@dataclass(frozen=True)
class Faulty:
    """What these options said, as typed."""

    slow: tuple[str, ...]
    down: tuple[str, ...]
    background: tuple[str, ...]
    late: tuple[str, ...]
    reroute_delay: str | None

    def read(self) -> tuple[tuple[Fault, ...], float]:
        """The faults, and the delay after which flows are routed anew.

        Raises:
            ValueError: one is written wrongly, or would be ignored.
        """
        from sim.faults import REROUTE_DELAY, parse_all, parse_seconds

        faults = parse_all((kind, text) for kind in KINDS for text in getattr(self, kind))
        if self.reroute_delay is None:
            return faults, REROUTE_DELAY
        if not self.down:
            raise ValueError("--reroute-delay is for --down: nothing is down here")
        return faults, parse_seconds(self.reroute_delay, "--reroute-delay")


def _several(name: str, metavar: str, help_text: str) -> Callable[[Any], Any]:
    return click.option(name, multiple=True, metavar=metavar, help=help_text + "  [may be repeated]")


_OPTIONS = (
    _several("--slow", "WHAT=FACTOR[@T1..T2]", "gpu:17=0.7, nic:NAME=0.5, link:A-B=0.5@2ms..5ms: share left."),
    _several("--down", "WHAT[@T1..T2]", "link:A-B (both directions) or nic:NAME carries nothing."),
    _several("--background", "CLASS=SHARE", "Share of a class of links that others take, as nic=0.3."),
    _several("--late", "gpu:N=TIME", "A GPU starts late, as gpu:5=2ms."),
    click.option("--reroute-delay", metavar="TIME", help="From a link's end to new routes.  [default: 10ms]"),
)


def fault_options(command: _Command) -> _Command:
    """Give a click command these options, as one argument `faulty`."""
    return as_record("faulty", Faulty, _OPTIONS)(command)


def assumptions(faults: tuple[Fault, ...], reroute_delay: float) -> list[str]:
    """What the answer rests on besides."""
    from sim.faults import REROUTE_ASSUMPTION
    from topologies.units import format_seconds

    down = any(fault.what == "down" for fault in faults)
    return [REROUTE_ASSUMPTION.format(format_seconds(reroute_delay))] if down else []


def describe(faults: tuple[Fault, ...]) -> dict[str, str]:
    """What is not as planned: a fact a line."""
    return {"faults": "; ".join(map(str, faults))} if faults else {}
