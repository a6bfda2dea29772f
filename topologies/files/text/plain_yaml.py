"""YAML read with care: plain mappings, lists, texts and numbers, without aliases, tags or depth, and with lines.

Scalars follow YAML 1.2's core schema (5e-7 is a number, no is a text), which JSON is a part of.
"""

import math
import re
from typing import Any

from topologies.files.facts import FileError
from topologies.files.text.wording import shown

MOST_DEPTH = 20  # our own documents have three
MOST_EVENTS = 1_000_000  # scalars, lists and mappings, begun and ended
_INT = re.compile(r"[-+]?[0-9]{1,40}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,5})?")
_NUMBER_LENGTH = 60
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= {word: True for word in ("true", "True", "TRUE")} | {word: False for word in ("false", "False", "FALSE")}


class Lines(dict[tuple[str | int, ...], int]):
    """Path of a value in a document -> the line on which it begins; a key's path has the line of the key."""

    def of(self, *path: str | int) -> int | None:
        """Return the line of the longest part of a path that has one."""
        while path and path not in self:
            path = path[:-1]
        return self.get(path)


def load(text: str, file: str, deepest_line: int = 2) -> tuple[Any, Lines]:
    """Return what a text of one YAML document says, and the lines of its values.

    Args:
        deepest_line: depth to which lines are kept.
    Raises:
        FileError: it is no YAML, has aliases, tags or several documents, a key twice, or is too deep or too large.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Document(file, deepest_line).read(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise FileError(file, f"is no YAML: {error.problem or 'a fault'}", mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        raise FileError(file, f"is no YAML: {shown(str(error).splitlines()[0])[1:-1]}") from None


class _Document:
    """Builds one document from the events of a parser."""

    def __init__(self, file: str, deepest_line: int) -> None:
        self.file, self.deepest_line = file, deepest_line
        self.lines = Lines()
        self.whole: Any = None
        # Lists and mappings that are open, each with the key whose value comes next (None: a key comes next).
        self.open: list[tuple[list[Any] | dict[str, Any], list[str]]] = []

    def read(self, events: Any) -> tuple[Any, Lines]:
        """Go through the events."""
        documents = 0
        for count, event in enumerate(events):
            kind = type(event).__name__
            if count > MOST_EVENTS:
                raise self.wrong(f"holds more than {MOST_EVENTS // 2:,} values: larger ones are read as JSON", event)
            if kind == "ScalarEvent":
                self.add(self.scalar(event), event)
            elif kind in ("MappingStartEvent", "SequenceStartEvent"):
                self.begin({} if kind[0] == "M" else [], event)
            elif kind in ("MappingEndEvent", "SequenceEndEvent"):
                self.open.pop()
            elif kind == "AliasEvent":
                raise self.wrong("an alias (*name) stands for other text: write it out", event)
            elif kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise self.wrong("a second document begins: one file holds one", event)
        return self.whole, self.lines

    def begin(self, new: list[Any] | dict[str, Any], event: Any) -> None:
        """Open a list or a mapping."""
        if len(self.open) >= MOST_DEPTH:
            raise self.wrong(f"is nested more than {MOST_DEPTH} deep", event)
        if event.tag is not None and event.tag != "!":
            raise self.wrong(f"a tag is not read: {shown(event.tag)}", event)
        self.add(new, event)
        self.open.append((new, []))

    def add(self, value: Any, event: Any) -> None:
        """Put a value where it belongs."""
        if event.anchor is not None:
            raise self.wrong("an anchor (&name) is for aliases, which are not read", event)
        if not self.open:
            self.whole = value
            return
        holder, key = self.open[-1]
        if isinstance(holder, list):
            holder.append(value)
        elif not key:
            if not isinstance(value, str):
                value = event.value if hasattr(event, "value") else None
            if value is None:
                raise self.wrong("a key is a text, not a list or mapping", event)
            if value in holder:
                raise self.wrong(f"{shown(value)} is there twice", event)
            holder[value] = None
            key.append(value)
        else:
            holder[key.pop()] = value
        if len(self.open) <= self.deepest_line:
            self.lines.setdefault(self.path(), event.start_mark.line + 1)

    def path(self) -> tuple[str | int, ...]:
        """Return the keys and numbers that lead to the newest value."""
        return tuple(
            len(holder) - 1 if isinstance(holder, list) else key[0] if key else next(reversed(holder))
            for holder, key in self.open
        )

    def scalar(self, event: Any) -> Any:
        """Return a scalar as a text, a number, true, false or null."""
        text: str = event.value
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            raise self.wrong(f"a tag is not read: {shown(event.tag)}", event)
        if not event.implicit[0] or event.style in ("'", '"'):
            return text
        if text in _WORDS:
            return _WORDS[text]
        if len(text) > _NUMBER_LENGTH:
            return text
        if _INT.fullmatch(text):
            return int(text)
        return float(text) if _FLOAT.fullmatch(text) and math.isfinite(float(text)) else text

    def wrong(self, what: str, event: Any) -> FileError:
        """Return the error of a place."""
        return FileError(self.file, what, event.start_mark.line + 1)
