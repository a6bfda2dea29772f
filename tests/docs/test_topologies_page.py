"""docs/topologies.md has every machine and every fabric, with the picture that the code draws now."""

import re

import pytest

from sim.pictures import Picture, write
from tests.docs.pictures import FOLDER, LARGEST, PAGE, between, graphs, sections

GRAPHS = graphs()


def labels(svg):
    """The texts and the tips of a picture, which any version of the library draws."""
    return sorted(re.findall(r">([^<\n]+)</(?:text|title)>", svg))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_picture_is_what_the_code_draws(name, tmp_path):
    write(Picture.of(GRAPHS[name]()), str(tmp_path / "now.svg"), "svg")
    drawn, kept = ((folder / file).read_text() for folder, file in ((tmp_path, "now.svg"), (FOLDER, f"{name}.svg")))

    assert labels(drawn) == labels(kept), "python -m tests.docs.pictures draws them again"
    assert len(kept) < LARGEST


@pytest.mark.parametrize("part", ["machines", "fabrics"])
def test_the_page_says_what_the_code_says(part):
    found = between(part).search(PAGE.read_text(encoding="utf-8"))

    assert found[2].strip() == sections()[part].strip(), "python -m tests.docs.pictures writes it again"


def test_every_picture_is_on_the_page():
    shown = set(re.findall(r"\]\(pictures/(\w+)\.svg\)", PAGE.read_text(encoding="utf-8")))

    assert shown == set(GRAPHS) == {path.stem for path in FOLDER.glob("*.svg")}
