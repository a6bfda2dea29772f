"""The text of a file as people save it: compressed or not, coloured or not, with any kind of line end."""

import codecs
import re
import unicodedata
import zlib
from pathlib import Path

from topologies.files.facts import FileError

MOST = 32 * 2**20  # bytes; the listing of a fabric of 10,000 hosts has about 10 MB
MOST_MEMBERS = 1024  # of a gzip file; block compressors write one for each 64 KiB
GZIP = b"\x1f\x8b"
ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
JUNK = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # what no text has: controls but tab and line ends
# Pages and terminals add blanks of other widths, marks of no width, and glyphs of their own fonts.
MOST_ODD = 1000  # different ones
REPLACED = {"Zs": " ", "Zl": " ", "Zp": " ", "Cf": "", "Co": "\ufffd", "Cn": "\ufffd"}


def load(path: str) -> str:
    """Return the text of a file: lines end in a line feed, all else but tabs is printable; there are no colours.

    Raises:
        FileError: there is no such file, it is larger than MOST (once unpacked too), or it is no text.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MOST + 1)
    except (OSError, ValueError) as error:  # a path with a null character is a ValueError
        raise FileError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if raw.startswith(GZIP):
        raw = _unpacked(raw, path)
    if len(raw) > MOST:
        raise FileError(path, f"is larger than {MOST // 2**20} MiB, which no description of a cluster is")
    text = ANSI.sub("", _decoded(raw, path))
    text = _printable(text.replace("\r\n", "\n").replace("\r", "\n"), path)
    junk = JUNK.search(text)
    if junk:
        line = text.count("\n", 0, junk.start()) + 1
        raise FileError(path, f"is no text: it holds the character {junk[0]!r}", line)
    if not text.strip():
        raise FileError(path, "is empty")
    return text


def _printable(text: str, path: str) -> str:
    """Return a text in which all is printable but controls."""
    odd = {letter: unicodedata.category(letter) for letter in set(text) if not letter.isprintable()}
    if len(odd) > MOST_ODD:
        raise FileError(path, f"is no text: it holds {len(odd):,} different characters that cannot be printed")
    for plain in sorted(set(REPLACED.values())):
        letters = "".join(re.escape(letter) for letter, category in odd.items() if REPLACED.get(category) == plain)
        text = re.sub(f"[{letters}]", plain, text) if letters else text
    return text


def _unpacked(raw: bytes, path: str) -> bytes:
    """Return what a gzip file holds, all of its members, as far as one byte too many."""
    texts: list[bytes] = []
    room = MOST + 1
    while raw.startswith(GZIP) and room:
        member = zlib.decompressobj(wbits=31)
        try:
            texts.append(member.decompress(raw, room))
        except zlib.error as error:
            raise FileError(path, f"cannot be unpacked: {error}") from None
        room -= len(texts[-1])
        if not member.eof and room:
            raise FileError(path, "cannot be unpacked: the gzip file is cut, its end is missing")
        if len(texts) > MOST_MEMBERS:
            raise FileError(path, f"cannot be unpacked: more than {MOST_MEMBERS} gzip files in one")
        raw = member.unused_data
    return b"".join(texts)


def _decoded(raw: bytes, path: str) -> str:
    """Return bytes as text: UTF-16 where they say so, UTF-8 otherwise."""
    encoding = "utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise FileError(path, f"is no {encoding} text: byte {error.start} is {raw[error.start]:#04x}") from None
