"""A document of mappings, lists and plain values as JSON and as YAML, a line for each entry of a mapping."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from topologies.files.text.wording import shown

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,200}")
_RESERVED = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def as_json(whole: Mapping[str, Any]) -> str:
    """Write a document as JSON, a line a node, class and list of links."""
    return "{\n" + ",\n".join(_entries(whole, lambda key: _json(key), "{", "}", ",")) + "\n}\n"


def as_yaml(whole: Mapping[str, Any]) -> str:
    """Write a document as YAML, a line a node, class and list of links."""
    return "\n".join(_entries(whole, _key, "", "", "")) + "\n"


def _entries(whole: Mapping[str, Any], key: Callable[[str], str], begin: str, end: str, comma: str) -> Iterator[str]:
    """Yield the text of each entry at the top; a mapping that is not empty has a line an entry."""
    value: Callable[[Any], str] = _json if begin else _flow
    for name, part in whole.items():
        if isinstance(part, dict) and part:
            lines = f"{comma}\n".join(f"  {key(k)}: {value(v)}" for k, v in part.items())
            yield f"{key(name)}: {begin}\n{lines}" + (f"\n{end}" if end else "")
        elif isinstance(part, list) and part:
            lines = "\n".join(f"  {'' if begin else '- '}{value(v)}{comma}" for v in part)
            yield f"{key(name)}: {'[' if begin else ''}\n{lines.removesuffix(',')}" + ("\n]" if begin else "")
        else:
            yield f"{key(name)}: {value(part)}"


def _json(value: Any) -> str:
    """Write a value as JSON."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        # What cannot be printed does not outlive being pasted, or being loaded.
        return text if text.isprintable() else json.dumps(value)
    except ValueError:
        raise ValueError(f"a cluster file holds finite numbers only: got {shown(value)}") from None


def _flow(value: Any) -> str:
    """Write a value as YAML in a line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)
    text = _json(value)
    # YAML 1.1 takes a number with an exponent for a text where it has no point.
    return text.replace("e", ".0e") if isinstance(value, float) and "e" in text and "." not in text else text


def _key(name: str) -> str:
    """Write a key as YAML: bare where it cannot be taken for anything else."""
    return name if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED else _flow(name)


def _escape(character: str) -> str:
    """Write a character as YAML escapes it."""
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"
