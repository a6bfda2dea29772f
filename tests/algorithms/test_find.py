"""Finding algorithms: names, and what frameworks call them."""

from pathlib import Path

import pytest

import algorithms


def test_the_folder_is_the_list():
    files = Path(algorithms.__file__).parent.glob("*.py")

    assert algorithms.names() == sorted(file.stem for file in files if "\n@spmd(" in file.read_text())
    assert {"ring", "tree"} < set(algorithms.names())
    assert all(algorithms.find(name) for name in algorithms.names())


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


def test_no_alias_hides_an_algorithm():
    assert not set(algorithms.ALIASES) & {*algorithms.names(), *algorithms.NOT_ALGORITHMS}


@pytest.mark.parametrize(
    "alias, name",
    [
        ("p2p", "ring"),
        ("a2a", "ulysses"),
        ("a2a+p2p", "usp"),
        ("llama3", "all_gather_kv"),
        ("dcp", "gather_q"),
        ("kvp", "helix"),
        ("pass-kv", "ring"),
        ("pass-q", "pass_q"),
    ],
)
def test_the_aliases_of_the_field(alias, name):
    assert algorithms.find(alias) == algorithms.find(name)


def test_an_unknown_name_is_told_the_nearest():
    with pytest.raises(ValueError, match=r"^no algorithm 'rnig': expected one of .*; nearest is ring"):
        algorithms.find("rnig")
    with pytest.raises(ValueError, match=r"^no algorithm 'options': expected one of "):
        algorithms.find("options")
