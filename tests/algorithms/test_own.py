"""Algorithms in a file of the caller's: found by FILE.py:NAME, held to the laws, and unable to spoil an answer."""

import re

import pytest

import algorithms
from algorithms.ir import Attention, Inapplicable, Mesh, ScheduleError
from algorithms.ir.laws import check
from algorithms.own import traced

MINE = """
from algorithms.ir import Attention, Partial, Rank, spmd
from algorithms.ops.all_gather import all_gather
from algorithms.ops.attend import attend
from algorithms.ops.load import load


def helper():
    return None


@spmd("cp")
def mine(me: Rank, problem: Attention) -> Partial:
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
    return attend(q, *all_gather(k, v, over="cp"))
"""

FAILING = """
from algorithms.ir import require, spmd

print("hello")


@spmd("cp")
def mine(me, problem):
    print("from mine")
    {body}
"""
PROBLEM = Attention(4, 2, 8, 37, 37)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_somebody_elses_file_needs_no_edit_of_ours(file):
    program = algorithms.find(f"{file}:mine")["prefill"]

    schedule = program(Attention(4, 2, 8, 37, 37), Mesh(cp=3))

    check(schedule)
    assert schedule.name == "mine"


def test_a_file_is_loaded_once(file, monkeypatch):
    monkeypatch.chdir(file.parent)

    assert algorithms.find("mine.py:mine")["prefill"] is algorithms.find(f"{file}:mine")["prefill"]


def test_files_of_one_name_in_two_folders_are_two_algorithms(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(MINE)

    one, other = (algorithms.find(f"{tmp_path}/{folder}/mine.py:mine")["prefill"] for folder in ("a", "b"))

    assert one is not other


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"^no file '.*nothing\.py' to load algorithm 'mine' from"):
        algorithms.find(f"{tmp_path}/nothing.py:mine")


def test_a_file_that_fails_to_load_says_why_each_time(file):
    file.write_text("import no_such_module")

    for _ in range(2):
        with pytest.raises(ValueError, match=r"mine\.py does not load: ModuleNotFoundError: No module named 'no_such"):
            algorithms.find(f"{file}:mine")


def test_a_file_that_is_no_python_says_why(file):
    file.write_text("def mine(:")

    with pytest.raises(ValueError, match=r"mine\.py does not load: SyntaxError"):
        algorithms.find(f"{file}:mine")


@pytest.mark.parametrize("name", ["helper", "yours", ""])
def test_a_function_that_is_no_algorithm_is_told_which_there_are(file, name):
    with pytest.raises(ValueError, match=re.escape(f"has no @spmd function {name!r}: it has mine")):
        algorithms.find(f"{file}:{name}")


def test_a_file_without_algorithms_has_none(file):
    file.write_text("x = 1")

    with pytest.raises(ValueError, match="has no @spmd function 'mine': it has none"):
        algorithms.find(f"{file}:mine")


@pytest.mark.parametrize("last", ["raise SystemExit(0)", "raise KeyError('x')"])
def test_the_line_at_which_a_file_fails_to_load_is_named(file, last):
    file.write_text(f"x = 1\n{last}\n")

    with pytest.raises(ValueError, match=r"mine\.py does not load: (SystemExit|KeyError): .* \(line 2\)$"):
        algorithms.find(f"{file}:mine")


def failing(file, body):
    file.write_text(FAILING.format(body=body))
    return traced("mine", algorithms.find(f"{file}:mine")["prefill"], PROBLEM, Mesh(cp=3))


@pytest.mark.parametrize(
    "body, message",
    [
        ("raise SystemExit(3)", r"mine fails: SystemExit: 3 \(line 10\)$"),
        ("return 1 / 0", r"mine fails: ZeroDivisionError: division by zero \(line 10\)$"),
        ("return [1, 2][me.coords[0]]", r"mine: S12: .* \(line 10\)$"),
        ("pass", "mine: S10: mine returns the state .*: got None$"),
    ],
)
def test_whatever_stops_a_program_is_one_line_that_names_the_place(file, body, message):
    with pytest.raises(ScheduleError, match=message) as caught:
        failing(file, body)

    assert "\n" not in str(caught.value)


def test_a_program_that_cannot_serve_a_problem_says_so_itself(file):
    with pytest.raises(Inapplicable, match=r"^too few heads$"):
        failing(file, "require(False, 'too few heads')")


def test_what_a_file_prints_stays_off_stdout(file, capsys):
    with pytest.raises(ScheduleError):
        failing(file, "pass")

    assert capsys.readouterr() == ("", "hello\nfrom mine\n")
