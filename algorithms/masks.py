"""Masks as people type them: counts with K, M and G, and documents whose lengths stand in a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from algorithms.ir.mask import MOST_DOCUMENTS, Mask, parse_mask
from algorithms.options import parse_count

LARGEST_FILE = 2**24  # bytes
_BETWEEN = re.compile(r"\s*,\s*|\s+")  # two commas have a length between them that is not there
_COUNT = re.compile(r"[0-9.]+[KMGT]\b", re.IGNORECASE)
_NUMBERS = re.compile(r"[0-9.KMGT+* -]*(,.*)?", re.IGNORECASE | re.DOTALL)


def mask_from(text: str, lengths: str | None = None) -> Mask:
    """Read a mask: full, causal, window:4K, documents:3K+500*2 or documents:FILE, or one of each with a comma.

    Args:
        lengths: of the documents, in place of those of the mask: counts separated by commas, or a file of them.
    Raises:
        ValueError: it is no mask, or there is no such file of lengths.
    """
    inside, name, documents = text.partition("documents:")
    if name and not _NUMBERS.fullmatch(documents):
        text = inside + name + "+".join(map(str, lengths_in(documents)))
    mask = parse_mask(_COUNT.sub(lambda count: str(parse_count(count[0])), text))
    if lengths is None:
        return mask
    if mask.documents:
        raise ValueError(f"--lengths {_cut(lengths)} and --mask {mask.short}: both say the documents, give one of them")
    return Mask(mask.causal, mask.window, tuple(lengths_from(lengths)))


def lengths_from(text: str) -> list[int]:
    """Read lengths, 1000,3K,500, or those in a file of that name.

    Raises:
        ValueError: one of them is no length, or there is no such file.
    """
    if re.fullmatch(r"[0-9.KMGT, +-]*", text, re.IGNORECASE):
        return list(_counted(text, f"lengths {_cut(text)}"))
    return lengths_in(text)


def lengths_in(path: str) -> list[int]:
    """Read lengths from a file: counts separated by blanks, new lines or one comma.

    Raises:
        ValueError: there is no such file, or something in it is no length.
    """
    if not os.path.isfile(path):
        raise ValueError(f"no file {_cut(path)!r} to read the lengths of documents from")
    with open(path, "rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise ValueError(f"{path} has more than {LARGEST_FILE} bytes: it holds no lengths of documents")
    return list(_counted(content.decode("utf-8", "replace"), path))


def _counted(text: str, where: str) -> Iterator[int]:
    words = _BETWEEN.split(text.strip()) if text.strip() else []
    if not 1 <= len(words) <= MOST_DOCUMENTS:
        raise ValueError(f"{where} must have 1 to 2^20 lengths of documents, got {len(words)}")
    for number, word in enumerate(words):
        try:
            yield parse_count(word)
        except ValueError as error:
            raise ValueError(f"{where}: length {number} of a document: {error}") from None


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
