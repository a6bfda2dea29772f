"""Fabrics: how the NICs of many machines are joined. One file each, with a function of the file's name.

A fabric is given a graph, the NICs of each machine in it and what they are made of, and adds switches and cables. What
can be chosen are keyword arguments with defaults: `fat_tree:oversubscription=2` is `partial(fat_tree,
oversubscription=2.0)`. How machines are attached to it, COMMON, can be chosen on every fabric in the same way, and is
taken out again by topologies.attach. Adding a file adds it to names().
"""

import importlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from topologies.units import parse_whole
from topologies.wording import cut, unknown

if TYPE_CHECKING:
    import networkx as nx

    from topologies.nics import Network

Fabric = Callable[..., None]  # (graph, NICs of each machine, their make)
DEFAULT = "rail"
COMMON: Mapping[str, float | None] = MappingProxyType({"nics": None, "gbit": None, "pxn": 0, "gpudirect": 1})
FRACTIONAL = ("gbit",)  # of the options without a default, those that need not be whole
MOST = 1e6  # of any option: beyond it a number is a mistake


def names() -> list[str]:
    """Return the names of all fabrics, sorted."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")


def find(name: str) -> Fabric:
    """Return the fabric of that name, or of that name in a file of the caller's: FILE.py:NAME.

    Raises:
        ValueError: there is none, or the file cannot be run.
    """
    if is_own(name):
        from topologies.own import load_fabric

        return load_fabric(name)
    if name not in names():
        raise ValueError(unknown("fabric", name, names()))
    fabric: Fabric = getattr(importlib.import_module(f"{__name__}.{name}"), name)
    return fabric


def is_own(text: str) -> bool:
    """Tell whether a text names a fabric in a file of the caller's."""
    return text.endswith(".py") or ".py:" in text


def options(fabric: Fabric) -> dict[str, float | None]:
    """Return what can be chosen of this fabric, besides COMMON, with its default; None: as the docstring says."""
    parameters = inspect.signature(fabric).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def parse(text: str) -> Fabric:
    """Return the fabric that NAME or NAME:KEY=VALUE,... describes; a NAME may be FILE.py:NAME.

    Raises:
        ValueError: no such fabric or option, or no number.
    """
    file = text.strip().partition(".py:")
    name, colon, more = (file[2] if file[1] else text.strip()).partition(":")
    name = f"{file[0]}.py:{name}" if file[1] else name
    fabric, chosen = find(name), {}
    known = {**COMMON, **options(fabric)}
    for entry in more.split(",") if colon else ():
        key, equals, number = (part.strip() for part in entry.partition("="))
        if not equals:
            raise ValueError(f"fabric {name} takes KEY=VALUE, separated by commas: got {cut(entry)!r}")
        if key not in known:
            raise ValueError(unknown(f"option for fabric {name}:", key, known))
        if key in chosen:
            raise ValueError(f"fabric {name} has {key} twice")
        whole = key not in FRACTIONAL and not isinstance(known[key], float)
        chosen[key] = _number(f"{key} of fabric {name}", number, whole, 0 if key in COMMON else 1)
    return partial(fabric, **chosen) if chosen else fabric


def label(fabric: Fabric) -> str:
    """Write a fabric with what was chosen: fat_tree(oversubscription=2)."""
    if not isinstance(fabric, partial):
        return str(getattr(fabric, "__name__", fabric))
    chosen = [f"{key}={value:g}" for key, value in fabric.keywords.items() if value is not None]
    return label(fabric.func) + (f"({', '.join(chosen)})" if chosen else "")


def split(fabric: Fabric) -> tuple[Fabric, dict[str, float]]:
    """Return the fabric without the options that all have, and what was chosen of these."""
    if not isinstance(fabric, partial):
        return fabric, {}
    chosen = {key: value for key, value in fabric.keywords.items() if key in COMMON and key not in options(fabric.func)}
    own = {key: value for key, value in fabric.keywords.items() if key not in chosen}
    return (partial(fabric.func, *fabric.args, **own) if own or fabric.args else fabric.func), chosen


def join(graph: "nx.DiGraph", nics: Sequence[Sequence[str]], network: "Network", fabric: Fabric) -> None:
    """Join machines by a fabric, and name the graph after it; a single machine needs none and gets none.

    Args:
        graph: is given the switches and cables, and the sources and assumptions of their numbers.
        nics: for each machine its NICs in order.
        network: what NICs and switches are made of.
    Raises:
        ValueError: options about the machines were chosen, of which only topologies.cluster makes something.
    """
    if len(nics) == 1:
        return
    if chosen := split(fabric)[1]:
        name = graph.graph.get("name", "the cluster")
        raise ValueError(f"{', '.join(chosen)} of a fabric are for machines joined by cluster(): {name} joins its own")
    fabric(graph, nics, network)
    named(graph, fabric)


def named(graph: "nx.DiGraph", fabric: Fabric) -> None:
    """Name a graph after the fabric that joins it."""
    graph.graph["fabric"] = label(fabric)
    if graph.graph["fabric"] != DEFAULT:
        graph.graph["name"] += f" on {graph.graph['fabric']}"


def alike(nics: Sequence[Sequence[str]], name: str) -> int:
    """Return how many NICs each machine has, for a fabric in which NIC i of every machine goes to one place.

    Raises:
        ValueError: machines differ.
    """
    counts = [len(machine) for machine in nics]
    if min(counts) != max(counts):
        raise ValueError(f"{name} takes NIC i of every machine: machines have from {min(counts)} to {max(counts)}")
    return counts[0]


def ratio(value: float, name: str) -> float:
    """Return value if it is a number above 0.

    Raises:
        ValueError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST:
        raise ValueError(f"{name} must be a number above 0 and at most {MOST:g}, got {value!r}")
    return value


def uplinks(fabric: str, option: str, down: int, oversubscription: float, hint: str = "") -> int:
    """Return the uplinks of a leaf, each as fast as one of the NICs below it.

    Raises:
        ValueError: these are no whole number.
    """
    up = down / oversubscription
    if round(up) < 1 or abs(up - round(up)) > 1e-9 * up:
        raise ValueError(
            f"a leaf of {fabric} has {option}={down} over oversubscription={oversubscription:g}, {up:.4g} uplinks: "
            f"no whole number{hint}"
        )
    return round(up)


def _number(what: str, text: str, whole: bool, minimum: int) -> float:
    """Read the number of an option."""
    if whole:
        return parse_whole(text, what, minimum, int(MOST))
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{what} must be a number, got {cut(text)!r}")
    return value
