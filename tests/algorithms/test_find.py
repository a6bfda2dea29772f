"""Finding algorithms: names, what frameworks call them, and somebody else's file."""

import re

import pytest

import algorithms
from algorithms.ir import Attention, Mesh
from algorithms.ir.laws import check

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


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_the_folder_is_the_list():
    assert algorithms.names() == ["all_gather_kv", "attention2d", "ring", "tree", "tree_packed", "ulysses", "usp"]


def test_a_ring_serves_two_phases():
    assert sorted(algorithms.find("ring")) == ["prefill", "train"]
    assert sorted(algorithms.find("tree")) == ["decode"]


def test_every_algorithm_bears_its_files_name_and_is_documented():
    for name in algorithms.names():
        for phase, program in algorithms.find(name).items():
            assert (program.name, program.phase) == (name, phase)
            for section in ("Shapes:", "Cost:", "References:"):
                assert section in program.body.__doc__


@pytest.mark.parametrize("alias", sorted(algorithms.ALIASES))
def test_what_frameworks_call_an_algorithm_is_understood(alias):
    assert algorithms.find(alias) == algorithms.find(algorithms.ALIASES[alias])


@pytest.mark.parametrize(
    "alias, name", [("p2p", "ring"), ("a2a", "ulysses"), ("a2a+p2p", "usp"), ("llama3", "all_gather_kv")]
)
def test_the_aliases_of_the_field(alias, name):
    assert algorithms.find(alias) == algorithms.find(name)


def test_an_unknown_name_is_told_the_nearest():
    with pytest.raises(ValueError, match=r"^no algorithm 'rnig': expected one of .*; nearest is ring"):
        algorithms.find("rnig")
    with pytest.raises(ValueError, match=r"^no algorithm 'options': expected one of "):
        algorithms.find("options")


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
