"""Ways of carrying out a collective: one file a way, one generator of rounds per collective it serves."""

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module

from algorithms import unknown
from algorithms.ways.rounds import COLLECTIVES, Round

__all__ = ["COLLECTIVES", "DEFAULT", "Round", "Way", "find", "names", "parse"]

Way = Callable[..., Iterator[Round]]  # (p) for all collectives but broadcast, which takes (p, root=0)

DEFAULT = {
    "all_gather": "ring",
    "reduce_scatter": "ring",
    "all_reduce": "ring",
    "all_to_all": "pairwise",
    "broadcast": "doubling",
}


def names(collective: str) -> list[str]:
    """Return the names of the ways that serve a collective, sorted."""
    return sorted(_serving(collective))


def find(collective: str, way: str) -> Way:
    """Return the generator function that carries a collective out in the named way.

    Raises:
        ValueError: no such collective, or no such way for it; the message names the nearest.
    """
    serving = _serving(collective)
    if way not in serving:
        raise ValueError(unknown("way", way, sorted(serving), use=collective))
    return serving[way]


def parse(text: str) -> dict[str, str]:
    """Read `all_gather=ring,all_reduce=doubling` into the ways it chooses; others go the program's way, or DEFAULT.

    Raises:
        ValueError: an entry that is not COLLECTIVE=WAY, names something unknown, or chooses a second time.
    """
    chosen: dict[str, str] = {}
    for entry in text.split(",") if text.strip() else []:
        collective, equals, way = (part.strip() for part in entry.partition("="))
        if not equals:
            raise ValueError(f"ways are COLLECTIVE=WAY, separated by commas: got {entry.strip()!r} in {text!r}")
        if collective in chosen:
            raise ValueError(f"ways choose once for each collective: got {collective} twice in {text!r}")
        find(collective, way)
        chosen[collective] = way
    return chosen


@cache
def _serving(collective: str) -> dict[str, Way]:
    """Return the modules of this folder that define a function of the collective's name."""
    if collective not in COLLECTIVES:
        raise ValueError(unknown("collective", collective, sorted(COLLECTIVES)))
    found: dict[str, Way] = {}
    for _, name, _ in pkgutil.iter_modules(__path__):
        module = import_module(f"{__name__}.{name}")
        way = getattr(module, collective, None)
        if inspect.isfunction(way) and way.__module__ == module.__name__:
            found[name] = way
    return found
