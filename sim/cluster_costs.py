"""Costs that a cluster brings along: numbers of the cost model that were told there, in place of the defaults.

`graph.graph["costs"]` maps names that `--assume` takes to a value, in SI units, and where it comes from:
`{"nic": {"value": 0.88, "source": "all_reduce on 16 ranks, log.txt lines 30-33"}}`. `ringloom calibrate` writes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import networkx as nx

from algorithms import unknown
from sim.assume import LEAST_SHARE, MOST, with_number
from sim.costs import Costs
from sim.numbers import NUMBERS, SHARE

LONGEST = 300  # characters of a source


def with_costs_of(costs: Costs, graph: nx.DiGraph) -> Costs:
    """Return the assumptions with those that were measured on the graph's cluster.

    Raises:
        ValueError: what the graph carries is no such mapping, or a number cannot be.
    """
    said, where = graph.graph.get("costs", {}), f"costs of {graph.graph.get('name', 'the cluster')}"
    if not isinstance(said, Mapping):
        raise ValueError(f"{where} must be a mapping of numbers by name, got {_short(said)}")
    sources = dict(costs.measured)
    for name, entry in said.items():
        if name not in NUMBERS:
            raise ValueError(f"{where}: {unknown('assumption', str(name)[:60], NUMBERS)}")
        if not isinstance(entry, Mapping) or not isinstance(entry.get("source"), str):
            raise ValueError(f"{where}: {name} must be a mapping of value and source, got {_short(entry)}")
        costs = with_number(costs, name, _value(name, entry.get("value"), where))
        sources[name] = " ".join(entry["source"].split())[:LONGEST]
    return replace(costs, measured=sources)


def _value(name: str, value: object, where: str) -> float:
    """Return a number that its kind may be.

    Raises:
        ValueError: it is none.
    """
    kind = NUMBERS[name].kind
    least, most = LEAST_SHARE if kind == SHARE else 0.0, MOST[kind]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{where}: {name} must be a number, got {_short(value)}")
    if not least <= value <= most:
        raise ValueError(f"{where}: {name} must be {least:g} to {most:g}, got {value:g}")
    return float(value)


def _short(value: object) -> str:
    """Write a value on one line, cut."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
