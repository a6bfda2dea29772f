"""Quantiles: how long ops were measured to take beside what is modelled, as a JSON file gives it.

    {"source": "400 attends on one GPU, idle machine",
     "quantiles": {"0": 0.97, "0.1": 0.98, "0.5": 1.0, "0.9": 1.06, "1": 1.4},
     "kinds": {"merge": {"0": 0.99, "0.5": 1.0, "1": 1.1}}}

A factor is measured seconds over seconds of the cost model, or over the median where the model is trusted there.
Factors are taken as they are, and not made to have mean 1: what was measured to be slow on average, is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np

from algorithms import unknown
from algorithms.files import json_object, once
from algorithms.ops import computing
from sim.state import Floats

MOST_FACTOR = 1000  # what takes a thousand times as long is a fault, and no jitter
FIELDS = ("quantiles", "kinds", "source")
EVERY = "quantiles"
Points = Mapping[float, float]


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of the factor by which an op takes longer than modelled; between two of them it is linear.

    Attributes:
        points: factor by quantile, from 0 to 1. kinds: the same for ops of one kind, before `points`.
        source: who measured, where and when. file: where they stand, for messages.
    """

    points: Points
    kinds: Mapping[str, Points] = field(default_factory=dict)
    source: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        known = computing()
        for kind in self.kinds:
            if kind not in known:
                raise ValueError(unknown("compute op", kind, known, use=self.file or "quantiles"))
        for name, points in {EVERY: self.points, **self.kinds}.items():
            _check(points, f"{name} of {self.file}" if self.file else name)

    def factors(self, kind: str, uniform: Floats) -> Floats:
        """The factors of an op's kind at places in (0, 1) of its distribution."""
        places, factors = zip(*sorted(self.kinds.get(kind, self.points).items()), strict=True)
        return np.asarray(np.interp(uniform, places, factors))

    def describe(self) -> dict[str, Any]:
        """All of it by name, as results echo it."""
        return {
            "file": self.file or None,
            "source": self.source or None,
            EVERY: _plain(self.points),
            "kinds": {kind: _plain(points) for kind, points in self.kinds.items()},
            "mean": mean(self.points),
        }

    def __str__(self) -> str:
        return f"as in {self.file}" if self.file else "by quantiles"

    def assumption(self) -> str:
        """How they are used, as a line."""
        own = f"; {', '.join(self.kinds)} by quantiles of their own" if self.kinds else ""
        source = f"; source: {self.source}" if self.source else ""
        as_measured = f"not made to have mean 1: it has {mean(self.points):.3g}"
        return f"a measured factor, linear between its quantiles and {as_measured}{own}{source}"


def mean(points: Points) -> float:
    """The mean of a factor that is linear between its quantiles."""
    return float(sum((b - a) * (points[a] + points[b]) / 2 for a, b in pairwise(sorted(points))))


def read(path: str) -> Quantiles:
    """Read the quantiles of a JSON file.

    Raises:
        ValueError: no such file, not JSON, or quantiles that are none.
    """
    hint = "; --jitter takes a relative deviation, as 0.05, or a file of measured quantiles"
    record = json_object(path, "file of quantiles", hint=hint, pairs=once)
    for name in record:
        if name not in FIELDS:
            raise ValueError(unknown("field", name, FIELDS, use=path))
    kinds, source = record.get("kinds", {}), record.get("source", "")
    if not isinstance(kinds, dict) or not isinstance(source, str):
        raise ValueError(f"kinds holds quantiles by kind of op, and source is a text: {path} has something else")
    points = {kind: _points(one, f"{kind} of {path}") for kind, one in kinds.items()}
    return Quantiles(_points(record.get(EVERY, {}), f"{EVERY} of {path}"), points, source, path)


def _points(found: Any, where: str) -> dict[float, float]:
    """Read an object of factors by quantile."""
    if not isinstance(found, dict):
        raise ValueError(f'quantiles are an object, as {{"0": 0.97, "0.5": 1, "1": 1.4}}: {where} is {_shown(found)}')
    points: dict[float, float] = {}
    for name, factor in found.items():
        try:
            quantile = float(name)
        except ValueError:
            raise ValueError(f"a quantile is a number from 0 to 1: {where} has {_shown(name)}") from None
        if quantile in points:
            raise ValueError(f"a quantile stands once: {where} has {quantile:g} twice")
        points[quantile] = factor
    return points


def _check(points: Points, where: str) -> None:
    """Refuse what is no distribution of a factor."""
    for quantile, factor in points.items():
        if not 0 <= quantile <= 1:
            raise ValueError(f"a quantile is from 0 to 1: {where} has {quantile:g}")
        if not isinstance(factor, Real) or isinstance(factor, bool) or not 0 < factor <= MOST_FACTOR:
            what = f"a factor is a number above 0 and at most {MOST_FACTOR}"
            raise ValueError(f"{what}: {where} has {_shown(factor)} at {quantile:g}")
    if not {0, 1} <= set(points):
        least_and_most = "quantiles begin at 0 and end at 1, the least and the most measured, so that none is guessed"
        raise ValueError(f"{least_and_most}: {where} has {f'{min(points):g} to {max(points):g}' if points else 'none'}")
    for a, b in pairwise(sorted(points)):
        if points[b] < points[a]:
            fall = f"{points[a]:g} at {a:g} and {points[b]:g} at {b:g}"
            raise ValueError(f"factors do not fall from one quantile to the next: {where} has {fall}")


def _plain(points: Points) -> dict[str, float]:
    return {f"{quantile:.12g}": float(points[quantile]) for quantile in sorted(points)}


def _shown(value: Any) -> str:
    """A value as Python writes it, cut short."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
