"""The picture of two runs: every op has its place and its tip, and no text runs into another."""

from dataclasses import replace
from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from sim.beside import Beside
from sim.pictures.lanes import Lanes
from sim.pictures.lanes_drawing import draw
from sim.recorded import recorded
from tests.sim.runs import PROBLEM, measured

RUNS = {
    "2 ranks": {"ring": 2},
    "8 ranks": {"ring": 8},
    "a grid": {"row": 2, "col": 3},
    "many ranks": {"ring": 24},
}


def lanes(tmp_path, **axes):
    name = "ring" if "ring" in axes else "attention2d"
    measured(name, problem=replace(PROBLEM, query_len=768, key_len=768), **axes).write(tmp_path / "run.json")
    return Lanes.of(Beside.of(recorded(str(tmp_path / "run.json"))))


@pytest.mark.parametrize("name", RUNS)
def test_no_text_runs_into_another_or_off_the_page(name, tmp_path):
    figure, _ = draw(lanes(tmp_path, **RUNS[name]))
    FigureCanvasAgg(figure).draw()
    drawn = [(text.get_text(), text.get_window_extent()) for text in figure.axes[0].texts if text.get_text()]

    page = figure.bbox
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1 for _, box in drawn)
    for (a, one), (b, other) in combinations(drawn, 2):
        across = min(one.x1, other.x1) - max(one.x0, other.x0)
        along = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert across < 1 or along < 3, (a, b)  # extents are of a line's height, ink is less


def test_every_op_of_every_rank_has_a_tip_in_both_runs(tmp_path):
    found = lanes(tmp_path, ring=2)
    tips = list(draw(found)[1].values())

    for run in found.runs:
        for lane in run.lanes:
            for span in lane.spans:
                assert any(tip.startswith(f"{span.name} on rank {lane.rank}: ") for tip in tips)


def test_an_op_waits_after_it_is_posted_and_goes_on_after_that(tmp_path):
    spans = [span for run in lanes(tmp_path, ring=4).runs for lane in run.lanes for span in lane.spans]

    assert all(0 <= span.start <= span.waited <= span.goes_on <= span.end for span in spans)
    assert any(span.start < span.waited < span.goes_on < span.end for span in spans)


def test_of_many_ranks_the_slowest_the_middle_and_the_fastest_are_drawn(tmp_path):
    found = lanes(tmp_path, ring=24)
    took = Beside.of(recorded(str(tmp_path / "run.json"))).measured.took
    seconds = (took.seconds + took.posting).sum(0)
    ranks = list(dict.fromkeys(lane.rank for lane in found.runs[0].lanes))

    assert len(ranks) == 3
    assert (ranks[0], ranks[2]) == (seconds.argmax(), seconds.argmin())
    assert found.kept.startswith("3 of 24 ranks")
