"""Clusters as graphs: functions that return a networkx.DiGraph, one file a family of machines.

A topology is any function of this folder annotated `-> nx.DiGraph` whose arguments all have defaults; adding a file
adds it to names().
"""

import ast
import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from topologies.wording import unknown

if TYPE_CHECKING:
    import networkx as nx

Topology = Callable[..., "nx.DiGraph"]


def names() -> list[str]:
    """Return the names of all topologies, sorted."""
    return sorted(_homes())


def find(name: str) -> Topology:
    """Return the topology of that name, or of that name in a file of the caller's: FILE.py:NAME.

    Raises:
        ValueError: there is none, or the file cannot be run.
    """
    if ":" in name or name.endswith(".py"):
        from topologies.own import load

        return load(name)
    homes = _homes()
    if name not in homes:
        raise ValueError(unknown("topology", name, homes))
    topology: Topology = getattr(importlib.import_module(homes[name]), name)
    return topology


@cache
def _homes() -> dict[str, str]:
    """Return topology -> module, read from the source so that networkx is not imported."""
    homes = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        for item in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(item, ast.FunctionDef) and not item.name.startswith("_") and _is_topology(item):
                homes[item.name] = f"{__name__}.{path.stem}"
    return homes


def _is_topology(function: ast.FunctionDef) -> bool:
    """Tell whether the function is annotated -> nx.DiGraph and can be called without arguments."""
    needed = len(function.args.args) - len(function.args.defaults)
    return function.returns is not None and ast.unparse(function.returns) == "nx.DiGraph" and not needed
