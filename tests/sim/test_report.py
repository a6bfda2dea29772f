"""Reports: ties are marked, and tables are plain and of bounded width where there is no terminal."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

import algorithms
from algorithms.ir import Attention
from algorithms.ir.job import Job
from sim import report
from sim.candidates import Refusal
from sim.compare import compare
from sim.simulate import Site
from topologies.basic import switch

PROBLEM = Attention(8, 4, 64, 4096, 4096, mask="causal")
FOUND = compare({"ring": algorithms.find("ring")}, PROBLEM, Job(1, 8, 1), Site(switch(8))).results[0]


SAID = "their times overlap within the stated error"


def printed(*parts):
    file = io.StringIO()
    with report.printing(file) as out:
        for part in parts:
            out.print(part)
    return file.getvalue()


def timed(seconds, error=0.1, **changes):
    low, high = seconds * (1 - error), seconds * (1 + error)
    return replace(FOUND, time_s=seconds, p10_s=seconds, p90_s=seconds, time_low_s=low, time_high_s=high, **changes)


def marks(results):
    return [line.split()[0] for line in printed(report.ranking(results, {})).splitlines()[2:]]


def test_results_within_the_error_of_the_best_are_marked_as_a_tie():
    assert marks([timed(1.0), timed(1.1), timed(1.2), timed(1.3)]) == ["1=", "2=", "3=", "4"]
    assert marks([timed(1.0), timed(1.3)]) == ["1", "2"]
    assert marks([timed(1.0)]) == ["1"]


def test_a_tie_need_not_stand_next_to_the_best():
    # all compute, 10 %: 0.9 .. 1.1 and 1.107 .. 1.353; all exposed, 25 %: 0.975 .. 1.625
    results = [timed(1.0), timed(1.23), timed(1.3, error=0.25)]

    assert marks(results) == ["1=", "2", "3="]
    assert report.tie_text(results).startswith("= the 2 marked cannot be told apart")
    assert report.tie_text([timed(1.0), timed(1.1)]).startswith("= the first 2 cannot be told apart")
    assert report.tie_text([timed(1.0), timed(1.3)]) == report.tie_text([timed(1.0)]) == ""


def test_the_best_of_each_algorithm_stands_first_and_all_are_counted():
    results = [timed(1.0, algorithm="a"), timed(2.0, algorithm="b"), timed(3.0, algorithm="a")]

    best, tried = report.best_of_each(results)

    assert [(one.algorithm, one.time_s) for one in best] == [("a", 1.0), ("b", 2.0)]
    assert tried == {"a": 2, "b": 1}


def test_what_does_not_fit_the_memory_is_marked():
    assert "GiB!" not in printed(report.ranking([timed(1.0)], {}))
    assert "!" in printed(report.ranking([timed(1.0, fits=False)], {}))


def test_what_does_not_fit_is_in_no_tie_and_is_said():
    fits, not_fits = timed(1.1), timed(1.0, fits=False, memory_bytes=2.0**30)

    assert marks([fits, not_fits]) == ["1", "2"]
    assert report.tie_text([fits, not_fits, timed(1.1)]) == "= the 2 marked cannot be told apart: " + SAID
    assert report.nothing_fits([fits, not_fits]) == ""
    assert report.nothing_fits([not_fits]).startswith("nothing fits the memory of a GPU: ring needs least, ")
    assert report.nothing_fits([not_fits]).endswith(" of 1.00 GiB, weights not counted")


def test_a_narrow_table_leaves_columns_out_and_a_wide_one_has_all():
    headings = [name for name, _ in report.RANKING if name not in ("", "p10..p90")]

    wide = printed(report.ranking([FOUND], {"ring": 3}, 120)).splitlines()[0].split()
    narrow = printed(report.ranking([FOUND], {"ring": 3}, 100)).splitlines()[0].split()

    assert wide == headings
    assert narrow == [name for name in headings if name not in ("+-", "busiest", "tried")]


def test_repeats_have_a_band_in_the_table_beside_the_stated_error():
    # p10 0.9, median 1.0, p90 1.2; a stated error of 10 %: 0.81 .. 1.32
    steady = timed(1.0)
    varied = replace(steady, times_s=(0.9, 1.0, 1.2), p10_s=0.9, p90_s=1.2, time_low_s=0.81, time_high_s=1.32)

    text = printed(report.ranking([varied, timed(1.3)], {}))

    assert "900 ms..1.20 s  10%" in text
    assert "p10..p90" not in printed(report.ranking([steady], {}))
    assert marks([varied, timed(1.3)]) == ["1=", "2="]
    assert report.tie_text([varied, timed(1.3)]).endswith(
        "their times overlap within the band of repeats and the stated error"
    )


def test_a_mesh_that_amounts_to_a_simpler_algorithm_is_said_to():
    simple = timed(1.0, algorithm="ulysses", mesh={"ulysses": 8})
    same = timed(1.0, algorithm="usp", mesh={"ring": 1, "ulysses": 8})
    other = timed(2.0, algorithm="usp", mesh={"ring": 8, "ulysses": 1})

    said = "usp with ring=1 is ulysses, in time: an axis of one rank does nothing"
    assert report.idle_axes([simple, same, other]) == [said]
    assert report.idle_axes([simple, other]) == []


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_no_mesh_is_broken_however_narrow_the_terminal(width):
    wide = timed(1.0, algorithm="usp", mesh={"ring": 8, "ulysses": 8})
    file = io.StringIO()

    Console(file=file, width=width).print(report.ranking([wide], {"usp": 1}, width))

    row = file.getvalue().splitlines()[2]
    assert "usp" in row
    assert "ring=8,ulysses=8 " in row
    assert "1.00 s" in row


def test_plain_output_has_no_control_characters_and_no_blanks_at_line_ends():
    text = printed(report.ranking([FOUND], {}))

    assert "\x1b" not in text
    assert all(line == line.rstrip() and len(line) <= report.PLAIN_WIDTH for line in text.splitlines())


def test_a_long_text_is_indented_under_its_lead():
    file = io.StringIO()
    with report.printing(file) as out:
        report.bullet(out, "  - ", "word " * 40)

    first, *others = file.getvalue().splitlines()
    assert first.startswith("  - word")
    assert others
    assert all(line.startswith("    word") for line in others)


def test_what_was_left_out_is_counted_in_a_line():
    refused = [Refusal("usp", {"ring": 8, "ulysses": 2}, "no"), Refusal("usp", {"ring": 4, "ulysses": 4}, "no")]

    assert report.partly([*refused, refused[0], Refusal("ring", {"ring": 16}, "no")]) == [
        "meshes that cannot run, with the reasons in --json: 2 of usp, 1 of ring"
    ]
    assert report.untried({"loongtrain": 3}) == [
        "orders of mesh axes that were not tried, one of which --mesh takes: 3 of loongtrain"
    ]
    assert report.partly([]) == report.untried({}) == []


def test_an_algorithm_that_cannot_run_is_named_once_with_how_many_reasons_it_has():
    refused = [Refusal("usp", {"ring": 8, "ulysses": 2}, "first"), Refusal("tree", None, "decode only")]
    file = io.StringIO()
    with report.printing(file) as out:
        report.refusals(out, [*refused, Refusal("usp", {"ring": 4, "ulysses": 4}, "second")])

    assert file.getvalue().splitlines() == [
        "  usp on ring=8,ulysses=2: first (and 1 more, in --json)",
        "  tree: decode only",
    ]
