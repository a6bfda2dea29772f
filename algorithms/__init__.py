"""Attention algorithms: one file each, written once, costed by `sim` and run by `executor`."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from algorithms.ir import Program

NOT_ALGORITHMS = {
    "configs",
    "fields",
    "files",
    "halo",
    "kinds",
    "masks",
    "models",
    "options",
    "own",
    "rings",
    "tiles",
}
ALIASES = {  # what frameworks and people call them
    "p2p": "ring",
    "all_gather": "all_gather_kv",
    "allgather": "all_gather_kv",
    "llama3": "all_gather_kv",
    "a2a": "ulysses",
    "a2a+p2p": "usp",
    "a2d": "attention2d",
    "tree_decode": "tree",
    "dcp": "gather_q",
    "dcp_a2a": "helix",
    "kvp": "helix",
    "pass-kv": "ring",  # of prefill: decoding, whose queries are everywhere, has ring_pass_kv
    "pass-q": "pass_q",
    "ring_decode": "ring_pass_kv",
    "ring_pass_q": "pass_q",
}


def names() -> list[str]:
    """List the algorithms: the modules of this folder."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.ispkg and m.name not in NOT_ALGORITHMS)


def unknown(
    what: str, name: str, known: Iterable[str], *, use: str = "", also: Iterable[str] = (), other: str = ""
) -> str:
    """Say in one line that there is no such name, which there are, and which is nearest.

    Args:
        use: what the name is for. also: names that are accepted too, but not listed.
        other: what may be written in place of a name.
    """
    known = list(known)
    near = difflib.get_close_matches(name, [*known, *also], n=1, cutoff=0.5)
    shown = name if len(name) <= 60 else name[:57] + "..."
    wanted = f"{shown!r} for {use}" if use else repr(shown)
    hint = f"; nearest is {near[0]}" if near else ""
    return f"no {what} {wanted}: expected one of {', '.join(known)}{f', or {other}' if other else ''}{hint}"


def find(name: str) -> dict[str, Program]:
    """Return an algorithm's programs by phase.

    Args:
        name: a name, an alias frameworks use, or FILE.py:NAME for somebody else's.
    Raises:
        ValueError: no such algorithm, with the nearest name; or a file that has none, or fails to load.
    """
    path, colon, function = name.rpartition(":")
    if colon and path.endswith(".py"):
        from algorithms.own import load

        return load(path, function)
    if name.endswith(".py"):
        from algorithms.own import refuse_bare

        refuse_bare(name)
    known = ALIASES.get(name, name)
    if known not in names():
        raise ValueError(unknown("algorithm", name, names(), also=ALIASES, other="FILE.py:NAME"))
    return _programs(importlib.import_module(f"algorithms.{known}"))


def _programs(module: Any) -> dict[str, Program]:
    from algorithms.ir import Program

    found = [v for v in vars(module).values() if isinstance(v, Program) and v.body.__module__ == module.__name__]
    return {program.phase: program for program in found}
