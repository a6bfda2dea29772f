"""XML read with care: no DTD, no entity of its own, no depth or number of elements that no machine has.

An element knows the line it stands on, so that whoever reads it can say where something is wrong.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import ParseError
from xml.parsers.expat import errors

from topologies.files.facts import FileError
from topologies.files.text.wording import shown
from topologies.garbage import uncollected

MOST_DEPTH = 100  # a PCIe tree has about ten levels
MOST_ELEMENTS = 200_000  # the largest machines have some thousand
MOST_ATTRIBUTES = 100  # of one element
LONGEST_TAG = 100_000  # characters
MOST_SKIPPED = 10_000  # comments and declarations before the first tag
_NAME = re.compile(r"/?[A-Za-z][\w.-]{0,50}")
_LONG_TAG = re.compile(f"<(?!!)[^<>]{{{LONGEST_TAG}}}")
_SKIPPED = {"<!--": "-->", "<?": "?>", "<!": ">"}


_NONE: list[Any] = []  # of an element without children: never added to


@dataclass(slots=True)
class Element:
    """One element of a document: its name, attributes, children and text, and its line."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list["Element"] = field(default_factory=lambda: _NONE)
    text: str = ""

    def all(self, tag: str) -> list["Element"]:
        """Return the children of that name."""
        return [child for child in self.children if child.tag == tag]


def first_tag(text: str) -> str:
    """Return the name of the first tag of a text, after comments and declarations; with a / if it closes.

    Empty where there is none, or where it stands so late that the text is something else.
    """
    at = text.find("<")
    if at < 0 or "ringloom." in text[: min(at, 1000)] or len(text[:at].strip()) > 1000:
        return ""
    for _ in range(MOST_SKIPPED):
        if at < 0:
            break
        end = next((end for begin, end in _SKIPPED.items() if text.startswith(begin, at)), None)
        if end is None:
            name = _NAME.match(text, at + 1)
            return name[0] if name else ""
        after = text.find(end, at)
        at = text.find("<", after) if after >= 0 else -1
    return ""


def parse(text: str, file: str, roots: Collection[str], most: int = MOST_ELEMENTS) -> Element:
    """Return the root of a document.

    What stands before the first tag or after the last, as a shell's prompt does, is passed over.

    Args:
        roots: names of which the root has one.
        most: elements; beyond it the document is refused.
    Raises:
        FileError: it is no whole document, it declares a document type or an entity, or it is larger or deeper than
            any machine.
    """
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser

    name = first_tag(text)
    if name.startswith("/"):
        line = text.count("\n", 0, text.find("</")) + 1
        raise FileError(file, f"<{name}> closes what was never opened: the beginning of the document is missing", line)
    if long := _LONG_TAG.search(text):
        line = text.count("\n", 0, long.start()) + 1
        raise FileError(file, f"a tag has more than {LONGEST_TAG:,} characters, or is never closed", line)
    begin, end = text.find("<"), text.rfind(">") + 1
    builder = _Builder(file, roots, most)
    parser = DefusedXMLParser(target=builder, forbid_dtd=True)
    builder.listen(parser.parser)
    try:
        with uncollected():
            parser.feed("\n" * text.count("\n", 0, begin) + text[begin:end] if begin >= 0 else "")
            parser.close()
    except DefusedXmlException:
        line = builder.expat.CurrentLineNumber
        wrong = "a document type or entity is declared, which no topology needs and which can harm: it was not read"
        raise FileError(file, wrong, line) from None
    except ParseError as error:
        raise FileError(file, *builder.explained(error)) from None
    assert builder.root is not None
    return builder.root


class _Builder:
    """Builds the elements of a document as its tags come by."""

    def __init__(self, file: str, roots: Collection[str], most: int) -> None:
        self.file, self.roots, self.most = file, roots, most
        self.root: Element | None = None
        self.open: list[Element] = []
        self.texts: list[str] = []
        self.count = 0
        self.expat: Any = None

    def listen(self, expat: Any) -> None:
        """Let a parser call this builder, with the attributes of an element as a list of names and values."""
        self.expat = expat
        expat.StartElementHandler, expat.EndElementHandler = self.start, self.end
        expat.CharacterDataHandler = self.data
        expat.ordered_attributes = True

    def start(self, tag: str, listed: list[str]) -> None:
        """Begin an element."""
        line = self.expat.CurrentLineNumber
        if len(listed) > 2 * MOST_ATTRIBUTES:
            raise FileError(self.file, f"an element has more than {MOST_ATTRIBUTES} attributes", line)
        attributes = dict(zip(listed[::2], listed[1::2], strict=True))
        element = Element(tag.rpartition("}")[2], attributes, line)
        self.count += 1
        if self.root is None:
            self.root = element
            if element.tag not in self.roots:
                expected = " or ".join(f"<{root}>" for root in self.roots)
                wrong = f"begins with <{shown(element.tag)[1:-1]}>: expected {expected} around all"
                raise FileError(self.file, wrong, element.line)
        else:
            above = self.open[-1]
            if above.children:
                above.children.append(element)
            else:
                above.children = [element]
        self.open.append(element)
        self.texts = []
        if len(self.open) > MOST_DEPTH:
            raise FileError(self.file, f"elements are nested more than {MOST_DEPTH} deep", element.line)
        if self.count > self.most:
            raise FileError(self.file, f"holds more than {self.most:,} elements", element.line)

    def data(self, text: str) -> None:
        """Keep text of the element that is open; a text between its children is lost."""
        self.texts.append(text)

    def end(self, tag: str) -> None:
        """End an element."""
        self.open.pop().text = "".join(self.texts)
        self.texts = []

    def close(self) -> None:
        """End the document."""

    def explained(self, error: ParseError) -> tuple[str, int]:
        """Say what is wrong with the document, and on which line."""
        line, _ = error.position
        inner = self.open[-1] if self.open else None
        what = f"<{shown(inner.tag)[1:-1]}> of line {inner.line}" if inner else ""
        message = errors.messages.get(error.code, "a fault")
        if message in (errors.XML_ERROR_NO_ELEMENTS, errors.XML_ERROR_UNCLOSED_TOKEN):
            return (
                (f"the text ends inside {what}, which is never closed: its end is missing", line)
                if inner
                else (
                    "the text ends inside its first tag: the rest is missing",
                    line,
                )
            )
        if message == errors.XML_ERROR_TAG_MISMATCH:
            return f"{what} is not closed where another tag closes: lines are missing between", line
        if message == errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT and self.root is not None:
            return f"more follows after the end of <{self.root.tag}>: one file holds one document", line
        return f"is no XML: {message}{f' in {what}' if inner else ''}", line
