"""Rules: the files of this folder as records, each rule a schedule that a framework has."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from algorithms import unknown

FOLDER = Path(__file__).parent


class Limit(NamedTuple):
    """An expression over the sizes of problem and mesh that must hold, and what it says."""

    needs: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One of our algorithms as a framework has it.

    Attributes:
        phases, masks, scores: what it takes; masks of full, causal, window, documents; scores of softcap, alibi, sinks.
        layouts: how it deals tokens where a mask must be balanced; empty: any, or it does not matter.
        order: mesh axes as it places them, slowest first; axes that are not in it go anywhere.
        set: what to type, with expressions over the sizes in braces.
        limits: what must hold besides. lacks: why a mask or score is not taken, where more is known than that.
        note: what else to know. recalled: what of this is from memory, not read in the source.
    """

    algorithm: str
    phases: tuple[str, ...]
    masks: tuple[str, ...]
    set: str
    source: str
    version: str
    scores: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    lacks: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    recalled: str = ""


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework: its name here and its own, other names, the version and source that were read, and its rules."""

    name: str
    title: str
    aliases: tuple[str, ...]
    version: str
    source: str
    rules: tuple[Rule, ...]


def names() -> list[str]:
    """List the frameworks: the files of data in this folder."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find(name: str) -> Framework:
    """Return a framework by its name or an alias, with - or _.

    Raises:
        ValueError: no such framework, with the nearest.
    """
    wanted = name.strip().lower().replace("-", "_")
    aliases = {alias: one.name for one in frameworks() for alias in one.aliases}
    wanted = aliases.get(wanted, wanted)
    for one in frameworks():
        if one.name == wanted:
            return one
    raise ValueError(unknown("framework", name, names(), also=aliases))


@cache
def frameworks() -> tuple[Framework, ...]:
    """Read all frameworks."""
    return tuple(read(FOLDER / f"{name}.toml") for name in names())


def read(path: Path) -> Framework:
    """Read a framework from its file; its name is the file's."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    rules = tuple(_rule({"version": data["version"], **rule}) for rule in data["rules"])
    return Framework(path.stem, data["title"], tuple(data.get("aliases", ())), data["version"], data["source"], rules)


def _rule(data: dict[str, Any]) -> Rule:
    """A rule from a table: lists become tuples."""
    limits = tuple(Limit(**limit) for limit in data.pop("limits", ()))
    plain: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    return Rule(**plain, limits=limits)
