"""Pictures: the same bytes each time, legible texts, a page that needs no other, a file that is whole or absent."""

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from sim.commands import run
from sim.pictures import Picture, files, write
from sim.pictures.drawing import draw
from sim.pictures.style import Scale, fitted, text_width
from topologies import fabrics, find
from topologies.dgx import dgx_h100
from topologies.nvl72 import gb200_nvl72

GRAPHS = {
    "one machine": dgx_h100,
    "a mesh": find("dgx1_v100"),
    "host memory": find("pcie_box"),
    "1,024 GPUs": lambda: dgx_h100(128, fabrics.parse("fat_tree")),
    "racks": lambda: gb200_nvl72(3),
    "one GPU": lambda: find("switch")(1),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_no_text_runs_into_another_or_off_the_page(name):
    figure, _ = draw(Picture.of(GRAPHS[name]()))
    FigureCanvasAgg(figure).draw()
    drawn = [(text.get_text(), text.get_window_extent()) for text in figure.axes[0].texts if text.get_text()]

    page = figure.bbox
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1 for _, box in drawn)
    for (a, one), (b, other) in combinations(drawn, 2):
        across = min(one.x1, other.x1) - max(one.x0, other.x0)
        along = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert across < 1 or along < 3, (a, b)  # extents are of a line's height, ink is less


@pytest.mark.parametrize("form", ["png", "svg", "html"])
def test_the_same_picture_has_the_same_bytes(form):
    once, again = (getattr(files, form)(Picture.of(dgx_h100(2))) for _ in range(2))

    assert once == again
    assert b"202" not in once[:400]  # no date


def test_a_png_has_160_dots_an_inch():
    picture = Picture.of(dgx_h100())
    width, height = draw(picture)[0].get_size_inches()
    header = files.png(picture)[16:24]

    assert [int.from_bytes(header[k : k + 4], "big") for k in (0, 4)] == pytest.approx(
        [160 * width, 160 * height], abs=1
    )


def test_an_svg_has_a_tip_on_every_box_wire_and_cell():
    root = ElementTree.fromstring(files.svg(Picture.of(dgx_h100())))
    tips = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]

    assert len(tips) == 17 + 16 + 56  # nodes, wires, pairs
    assert "node0/gpu3 (gpu)" in tips
    assert "gpu3 – nvswitch: 1 × nvlink 450 GB/s each way" in {
        tip.replace("nvswitch – gpu3", "gpu3 – nvswitch") for tip in tips
    }
    assert "node0/gpu0 to node0/gpu1: 450 GB/s" in tips


def test_a_page_is_one_file_with_sources_and_assumptions():
    text = files.html(Picture.of(dgx_h100(2))).decode()

    assert not re.search(r"<(script|link|img|iframe)\b|@import|url\((?!#)", text)
    for part in (
        "<svg",
        "<title>",
        "Sources",
        "Assumptions",
        "Links",
        "nvlink.bandwidth",
        "bisection 400 GB/s each way",
    ):
        assert part in text


def test_names_cannot_break_out_of_a_page():
    graph = dgx_h100()
    graph.graph["name"] = "<script>alert('&')</script>"
    graph.graph["sources"]["x"] = '"><script>'
    text = files.html(Picture.of(graph)).decode()

    assert "<script" not in text
    ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])


def test_commands_draw_all_three(tmp_path, capsys):
    paths = {form: tmp_path / f"a.{form}" for form in ("png", "svg", "html")}
    arguments = [word for form, path in paths.items() for word in (f"--{form}", str(path))]

    assert run(["topology", "show", "perlmutter", *arguments]) == 0
    assert paths["png"].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert paths["svg"].read_text().startswith("<?xml")
    assert paths["html"].read_text().startswith("<!DOCTYPE html>")
    assert sorted(tmp_path.iterdir()) == sorted(paths.values())
    assert f"ringloom: png {paths['png']}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option, path, message",
    [
        ("--png", "a.svg", "--png 'a.svg' must end in .png: it ends in .svg"),
        ("--svg", "a", "--svg 'a' must end in .svg: it ends in no suffix"),
        ("--html", "no/such/a.html", "--html no/such/a.html is in no folder that exists"),
        ("--png", "folder.png", "--png folder.png is a folder"),
    ],
)
def test_a_file_that_cannot_be_is_one_line_and_status_2(option, path, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.png").mkdir()

    assert run(["topology", "show", "ring", option, path]) == 2
    assert capsys.readouterr() == ("", f"ringloom: {message}\n")
    assert [found.name for found in tmp_path.iterdir()] == ["folder.png"]


def test_a_drawing_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "draw", lambda picture: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(Picture.of(dgx_h100()), str(tmp_path / "a.svg"), "svg")

    assert list(tmp_path.iterdir()) == []


def test_faster_is_thicker_and_of_another_colour():
    scale = Scale([25.0, 50.0, 450.0])
    widths = [scale.width(rate) for rate in scale.rates]

    assert widths == sorted(widths)
    assert len({scale.colour(rate) for rate in scale.rates}) == 3


def test_a_text_is_made_to_fit():
    text, size = fitted("a name that is far too long for its box", 8, 0.6)

    assert text.endswith("…")
    assert text_width(text, size) <= 0.6
    assert fitted("gpu0", 8, 0.6) == ("gpu0", 8)
