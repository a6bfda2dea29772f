"""What `check` proves on by default leaves no corner out."""

from math import prod

import pytest

import algorithms
from algorithms.ir.job import Job, factorisations
from executor.cases import Asked, cases
from executor.errors import BadInput

EVERY = {name: algorithms.find(name) for name in algorithms.names()}


def default(ranks, **said):
    return cases(EVERY, Asked(**said), ranks, f"MPI has {ranks}")[0]


@pytest.mark.parametrize("n", [1, 2, 6, 8, 12])
def test_factorisations_are_all_and_each_once(n):
    pairs = list(factorisations(n, 2))

    assert pairs == [(d, n // d) for d in range(1, n + 1) if n % d == 0]
    assert (
        len({*factorisations(n, 3)})
        == len(list(factorisations(n, 3)))
        == sum(len({*factorisations(b, 2)}) for _, b in pairs)
    )
    assert all(prod(x) == n for x in factorisations(n, 3))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 6, 7, 8, 16])
def test_every_program_mesh_layout_mask_and_gqa_ratio_is_there(ranks):
    found = default(ranks)

    for name, programs in EVERY.items():
        for phase, program in programs.items():
            own = [c for c in found if (c.algorithm, c.program.phase) == (name, phase)]
            meshes = {str(c.mesh) for c in own}
            assert len(meshes) == len(list(factorisations(ranks, len(program.axes))))
            assert {(str(c.mesh), c.layout) for c in own} == {
                (m, x) for m in meshes for x in ("contiguous", "zigzag", "striped")
            }
            for case in own:
                ratios = {p.heads // p.kv_heads for p in case.problems if p.mask == "causal"}
                assert {1, 2, case.problems[0].heads} == ratios
                assert {p.shared_kv for p in case.problems} == {False, True}
                assert {p.mask for p in case.problems} == {"full", "causal"}


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 8])
def test_lengths_are_uneven_and_fewer_than_the_ranks(ranks):
    for case in default(ranks):
        assert case.mesh.size == ranks
        assert any(p.key_len % ranks for p in case.problems)
        assert any(p.key_len < ranks for p in case.problems)
        if case.program.phase == "prefill":
            assert any(p.cached for p in case.problems)


def test_a_size_that_is_said_is_the_only_one():
    found = default(2, phases=["train"], seq=10, heads=4, kv_heads=1, layouts=["zigzag"], masks=["full"])

    assert found
    for case in found:
        (problem,) = case.problems
        assert (problem.query_len, problem.key_len, problem.heads, problem.kv_heads) == (10, 10, 4, 1)


def test_tp_and_dp_stand_around_the_axes_of_the_algorithm():
    assert {str(c.mesh) for c in default(8, tp=2, dp=2) if c.algorithm == "ring"} == {"dp=2,ring=2,tp=2"}
    assert Job(2, 2, 2).size == 8


@pytest.mark.parametrize("mesh, told", [("ring=8", "needs 8 ranks: MPI has 4"), ("ring=2", "uses 2 ranks: MPI has 4")])
def test_a_mesh_of_another_size_than_the_ranks_is_refused(mesh, told):
    with pytest.raises(BadInput, match=told):
        default(4, mesh=mesh)


def test_algorithms_of_other_axes_than_the_mesh_are_told():
    found, others = cases(EVERY, Asked(mesh="row=2,col=2"), 4, "MPI has 4")

    assert {c.algorithm for c in found} == {"attention2d"}
    assert ("ring", "prefill needs mesh axes ring, got row=2,col=2") in others
