"""Names in the listing of an InfiniBand network: which host a card is in, and what a switch is called."""

import re
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import TypeVar

_CARD = re.compile(r"(.*\S)\s+([A-Za-z][A-Za-z0-9]*[-_][0-9]+(?:[a-z][0-9]+)*)")  # node017 mlx5_5, node017 HCA-6
_SWITCH = re.compile(r"MF0;([^:;]+):([^/:]+)(?:/(\S+))?")  # MF0;leaf01:MQM9701/U1
_AGGREGATION = "aggregation node"

_Key = TypeVar("_Key", bound=Hashable)


def is_aggregation(text: str) -> bool:
    """Tell whether a card is the one inside a switch that reduces on the way (SHARP), which no host has."""
    return _AGGREGATION in text.lower()


def host_and_card(text: str) -> tuple[str, str] | None:
    """Return host and card of what a card says of itself; None if it names no host.

    A card whose host gave it no name says what it is: MT4129 ConnectX7   Mellanox Technologies.
    """
    words = text.split()
    if len(words) == 1:
        return _plain(words[0]), "HCA"
    found = _CARD.fullmatch(text.strip()[:200])
    return (_plain(found[1]), found[2]) if found else None


def switch_and_model(text: str) -> tuple[str, str]:
    """Return the name and the model of what a switch says of itself; the model is "" where it does not say.

    Boards of one chassis have one name: a board that is not U1, the only one of a small switch, is added to it.
    """
    found = _SWITCH.match(text)
    if not found:
        return _plain(text) or "switch", ""
    board = (found[3] or "U1").removesuffix("/U1").replace("/", ".")
    return _plain(found[1] if board == "U1" else f"{found[1]}.{board}"), found[2]


def told_apart(names: Mapping[_Key, str]) -> dict[_Key, str]:
    """Number the names that are not alone, in the order given: sw, sw#2, sw#3."""
    seen: Counter[str] = Counter()
    taken = set(names.values())
    apart = {}
    for key, name in names.items():
        seen[name] += 1
        told = name
        while seen[name] > 1 and told in taken:
            told = f"{name}#{seen[name]}"
            seen[name] += told in taken
        taken.add(told)
        apart[key] = told
    return apart


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return the key that sorts names as people do: node9 before node10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,18})", name))


def _plain(text: str) -> str:
    """Return a name that nodes of a graph can have: a slash there parts a host from what is in it."""
    return " ".join(text.split()).replace("/", ".")[:80]
