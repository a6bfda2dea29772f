"""What errors say: a text cut to fit a line, and a name that nobody knows."""

import difflib
from collections.abc import Iterable


def cut(text: str, most: int = 60) -> str:
    """Return a text, cut to a length that fits a line."""
    return text if len(text) <= most else text[: most - 3] + "..."


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Say that there is no such name, which there are, and which is nearest."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"; nearest is {near[0]}" if near else ""
    return f"no {what} {cut(name)!r}: expected one of {', '.join(known)}{hint}"
