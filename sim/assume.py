"""Change assumptions of the cost model from the command line: `merge_nbytes=12,comm_launch=8us,nvlink=85%`."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

from algorithms import unknown
from sim.costs import Costs
from topologies.links import LINK_KINDS
from topologies.units import ms, ns, us

UNITS = {"us": us, "ms": ms, "ns": ns, "%": 0.01}
LEAST_SHARE = 1e-6
MOST = {"merge_nbytes": 1e6}  # bytes of an element; launches: LONGEST
LONGEST = 3600.0  # seconds
SHARES = ("memory_share", "decode_memory_share", "plain_share")
NUMBERS = tuple(f.name for f in fields(Costs) if f.name not in ("kernel", "link_share"))


def assume(costs: Costs, text: str) -> Costs:
    """Return the assumptions with those that the text names changed.

    Args:
        text: NAME=NUMBER, separated by commas; a name is a field of Costs or a class of link (its share).
            Numbers are SI, or end in us, ms, ns or %.
    Raises:
        ValueError: an unknown name, or a number that is no launch, share or count of bytes.
    """
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, number = (x.strip() for x in entry.partition("="))
        if not equals:
            raise ValueError(f"--assume takes NAME=NUMBER, separated by commas: got {entry!r}")
        if name in LINK_KINDS:
            costs = replace(costs, link_share={**costs.link_share, name: _share(name, _number(name, number))})
        elif name in NUMBERS:
            value = _number(name, number)
            changed: dict[str, Any] = {name: _share(name, value) if name in SHARES else value}
            costs = replace(costs, **changed)
        else:
            raise ValueError(unknown("assumption", name, (*NUMBERS, *LINK_KINDS)))
    return costs


def _number(name: str, text: str) -> float:
    unit = next((u for u in UNITS if text.endswith(u)), "")
    try:
        value = float(text.removesuffix(unit)) * UNITS.get(unit, 1.0)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"assumption {name} must be a number of at least 0, got {text!r}")
    if value > MOST.get(name, LONGEST):
        raise ValueError(f"assumption {name} must be at most {MOST.get(name, LONGEST):g}, got {text}")
    return value


def _share(name: str, value: float) -> float:
    if not LEAST_SHARE <= value <= 1:
        raise ValueError(f"assumption {name} is a share: at least {LEAST_SHARE:g}, at most 1 (100%), got {value:g}")
    return value
