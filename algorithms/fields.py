"""Fields of a config: flags and numbers, each fault said in a line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

LARGEST = 2**20  # heads, layers, widths: more is a mistake


def flag(config: Mapping[str, Any], where: str, field: str) -> bool:
    """A field that is true or false; absent and null are false."""
    value = config.get(field)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{field} must be true or false: {where} has {shown(value)}")
    return bool(value)


def integer(
    config: Mapping[str, Any], where: str, *fields: str, default: int | None = None, most: int = LARGEST
) -> int:
    """The first of these fields that is there; null counts as absent."""
    for field in fields:
        value = config.get(field)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise ValueError(f"{field} must be an integer from 1 to {most}: {where} has {shown(value)}")
        return value
    if default is None:
        raise ValueError(f"{where} has no {' or '.join(fields)}")
    return default


def positive(config: Mapping[str, Any], where: str, field: str) -> float:
    """A field that is a positive number; 0 where it is absent or null."""
    value = config.get(field)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{field} must be a positive number: {where} has {shown(value)}")
    return float(value)


def shown(value: object) -> str:
    """A value, cut to a length that fits a line."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
