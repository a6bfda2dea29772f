"""What `check` prints of a program that is wrong."""

from algorithms.ir import Attention, Mesh
from algorithms.ring import ring_attention
from executor.cases import Case
from executor.check import Row
from executor.gpu.choice import Choice
from executor.report import Report, Setting

CASE = Case("mine", ring_attention, Mesh(ring=4), "zigzag", (Attention(4, 4, 8, 9, 9),))
SETTING = Setting(4, ("host",), "MPI", Choice("cpu", "numpy"), "native", 0)


def failing(fault, worst):
    return Row(CASE, cases=1, share=2.0, worst=worst, fault=fault, exact=False)


def test_the_law_stands_before_the_case_and_no_line_twice(capsys):
    report = Report(SETTING, [CASE], False, {})
    for worst in ("out of causal", "out of full"):
        report.add(failing("S8: a key is missing", worst))
    report.add(failing("", "out of full"))

    said = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("    ")]

    assert said == ["S8: a key is missing", "worst: out of causal", "worst: out of full", "wrong: out of full"]
    assert report.end() == 1
