"""XML that is made to harm, or is larger or deeper than any machine, is refused in one line."""

import time

import pytest

from topologies.files.facts import FileError
from topologies.files.text.markup import MOST_DEPTH, MOST_ELEMENTS, first_tag, parse

BOMB = (
    '<!DOCTYPE lolz [<!ENTITY a "lol">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    + "]>"
)


@pytest.mark.parametrize(
    "head",
    [
        BOMB,
        '<!DOCTYPE system [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE system SYSTEM "http://example.org/system.dtd">',
        '<!DOCTYPE system [<!ENTITY % x SYSTEM "http://example.org/x"> %x;]>',
    ],
    ids=["bomb", "file", "address", "parameter"],
)
def test_no_entity_and_no_document_type_is_read(head):
    start = time.process_time()
    with pytest.raises(FileError, match="line 2: a document type or entity is declared") as error:
        parse(f"<?xml version='1.0'?>\n{head}<system>&i;</system>", "f", ["system"])

    assert "\n" not in str(error.value)
    assert time.process_time() - start < 1


def test_an_entity_that_nobody_declared_is_no_xml():
    with pytest.raises(FileError, match="undefined entity in <system>"):
        parse("<system>&x;</system>", "f", ["system"])


@pytest.mark.parametrize("depth", [MOST_DEPTH + 1, 10_000])
def test_depth_is_bounded(depth):
    with pytest.raises(FileError, match=f"nested more than {MOST_DEPTH} deep"):
        parse("<system>" + "<pci>" * depth, "f", ["system"])


def test_number_is_bounded():
    with pytest.raises(FileError, match="holds more than 200,000 elements"):
        parse("<system>" + "<pci/>" * MOST_ELEMENTS + "</system>", "f", ["system"])


def test_a_tag_has_no_end_of_attributes():
    attributes = " ".join(f"a{i}='1'" for i in range(101))
    with pytest.raises(FileError, match="more than 100 attributes"):
        parse(f"<system {attributes}/>", "f", ["system"])
    with pytest.raises(FileError, match="line 2: a tag has more than 100,000 characters"):
        parse(f"\n<system {'x' * 100_000}/>", "f", ["system"])


def test_lines_are_those_of_the_file_whatever_stands_before():
    root = parse("\n\nprompt$\n<!-- a\nb --><system>\n<cpu a='1'>x</cpu>\n</system>", "f", ["system"])

    assert (root.line, root.children[0].line) == (5, 6)
    assert root.children[0].attributes == {"a": "1"}
    assert root.children[0].text == "x"


@pytest.mark.parametrize(
    "text, tag",
    [
        ("<?xml version='1.0'?><!-- <a> --><!DOCTYPE b>\n<c d='e'>", "c"),
        ("</pci>", "/pci"),
        ("a < b", ""),
        ("no tag", ""),
        ("<!-- never closed", ""),
        ('{"schema": "ringloom.cluster/1", "name": "<system>"}', ""),
    ],
)
def test_the_first_tag_is_no_comment_and_no_declaration(text, tag):
    assert first_tag(text) == tag
