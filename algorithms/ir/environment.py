"""The machine that a timeline or a calibration was made on, and whether two of them are one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MEASURED = "ringloom.measured/1"  # the schema of what a calibration puts into a cluster file
UNSTEADY = 1.5  # p90 / p10 beyond which times are called unsteady
SAME = ("hosts", "cpu", "cores", "gpus", "mpi", "blas")  # what must be alike for times to carry over


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Say in what two environments differ so that times of one tell nothing of the other; "" where they do not.

    What one of the two does not say is not looked at.
    """
    found = [f"{name} {_text(one[name])}, not {_text(other[name])}" for name in SAME if _differ(one, other, name)]
    return "; ".join(found)


def _differ(one: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool:
    return name in one and name in other and _text(one[name]) != _text(other[name])


def _text(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
