"""Change assumptions of the cost model from the command line: `merge_nbytes=12,comm_launch=8us,nvlink=85%`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from algorithms import unknown
from sim.costs import Costs
from sim.numbers import BYTES, NUMBERS, SHARE, TIME
from topologies.links import LINK_KINDS, NODE_KINDS
from topologies.units import ms, ns, us

UNITS = {"us": us, "ms": ms, "ns": ns, "s": 1.0, "%": 0.01}  # each before those that its end is
LEAST_SHARE = 1e-6
MOST = {TIME: 3600.0, SHARE: 1.0, BYTES: 1e6}  # seconds; bytes of an element


def assume(costs: Costs, text: str) -> Costs:
    """Return the assumptions with those that the text names changed.

    Args:
        text: NAME=NUMBER, separated by commas; a name is one of sim.numbers.NUMBERS. A time ends in us, ms, ns or s.
    Raises:
        ValueError: an unknown name, or a number that is no launch, share or count of bytes.
    """
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, number = (x.strip() for x in entry.partition("="))
        if not equals:
            raise ValueError(f"--assume takes NAME=NUMBER, separated by commas: got {entry!r}")
        if name not in NUMBERS:
            _refuse(name)
        costs = with_number(costs, name, _number(name, number))
        measured = {other: source for other, source in costs.measured.items() if other != name}
        costs = replace(costs, said=costs.said | {name}, measured=measured)
    return costs


def with_number(costs: Costs, name: str, value: float) -> Costs:
    """Return the assumptions with one number changed."""
    changed: dict[str, Any] = {"link_share": {**costs.link_share, name: value}} if name in LINK_KINDS else {name: value}
    return replace(costs, **changed)


def _refuse(name: str) -> None:
    """Say whose a name is that is no assumption of the cost model's."""
    if name.partition(".")[0] in (*LINK_KINDS, *NODE_KINDS) and "." in name:
        raise ValueError(
            f"{name} belongs to the topology: write a FILE.py:NAME (docs/adding.md) and give it as --cluster"
        )
    raise ValueError(unknown("assumption", name, NUMBERS))


def _number(name: str, text: str) -> float:
    """Read a number in a unit of its kind."""
    kind, unit = NUMBERS[name].kind, next((u for u in UNITS if text.endswith(u)), "")
    digits = text.removesuffix(unit)
    try:
        value = float(digits) * UNITS.get(unit, 1.0)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"assumption {name} must be a number of at least 0, got {text!r}")
    if kind == TIME and unit in ("", "%") and value:
        raise ValueError(f"{name} is a time: say {digits}us")
    if kind == SHARE and (unit not in ("", "%") or not LEAST_SHARE <= value <= 1):
        raise ValueError(f"{name} is a share: at least {LEAST_SHARE:g}, at most 1 (100%), got {text}")
    if kind == BYTES and unit:
        raise ValueError(f"{name} is a count of bytes: say {digits}")
    if value > MOST[kind]:
        raise ValueError(f"assumption {name} must be at most {MOST[kind]:g}, got {text}")
    return value
