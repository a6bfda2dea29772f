"""What `check` proves on by default leaves no corner out."""

from math import prod

import pytest

import algorithms
from algorithms.ir.job import Job, factorisations
from algorithms.ir.mask import CAUSAL, FULL, Mask
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
            splits = (dict(zip(program.axes, x, strict=True)) for x in factorisations(ranks, len(program.axes)))
            assert len(meshes) == sum(len({split[axis] for axis in program.equal}) <= 1 for split in splits)
            assert {(str(c.mesh), c.layout) for c in own} == {
                (m, x) for m in meshes for x in ("contiguous", "zigzag", "striped", "documents")
            }
            for case in own:
                if case.layout == "documents":
                    assert all(p.mask.documents for p in case.problems)
                    continue
                ratios = {p.heads // p.kv_heads for p in case.problems if p.mask == CAUSAL}
                assert {1, 2, case.problems[0].heads} == ratios
                assert {p.shared_kv for p in case.problems} == {False, True}
                assert {FULL, CAUSAL} < {p.mask for p in case.problems}
                kinds = {(p.mask.causal, p.mask.window > 0, p.mask.documents != ()) for p in case.problems}
                assert {(True, True, False), (True, False, True), (False, False, True), (True, True, True)} < kinds
                for change in ("softcap", "alibi", "sinks"):
                    assert {bool(getattr(p, change)) for p in case.problems} == {False, True}


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 8])
def test_lengths_are_uneven_and_fewer_than_the_ranks(ranks):
    for case in (c for c in default(ranks) if c.layout != "documents"):
        assert case.mesh.size == ranks
        assert any(p.key_len % ranks for p in case.problems)
        assert any(p.key_len < ranks for p in case.problems)
        if case.program.phase == "prefill":
            assert any(p.cached for p in case.problems)


def test_a_size_that_is_said_is_the_only_one():
    for case in default(2, phases=["train"], seq=10, heads=4, kv_heads=1, layouts=["zigzag"], masks=[FULL]):
        (problem,) = case.problems
        assert (problem.query_len, problem.key_len, problem.heads, problem.kv_heads) == (10, 10, 4, 1)


def test_scores_that_are_said_are_those_of_every_problem():
    for case in default(2, softcap=3.0, alibi=True, sinks=True, masks=[Mask(True, 5)]):
        assert {(p.mask.window, p.softcap, p.alibi, p.sinks) for p in case.problems} == {(5, 3.0, True, True)}


def test_documents_that_are_said_are_all_the_tokens():
    found = default(2, masks=[Mask(True, 0, (3, 8))], new=2)

    assert {(c.program.phase, p.query_len, p.key_len) for c in found for p in c.problems} == {
        ("prefill", 11, 11),
        ("train", 11, 11),
        ("decode", 4, 11),
    }


def test_a_layout_of_documents_needs_some():
    with pytest.raises(BadInput, match="layout documents deals packed documents: say --lengths or --mask documents"):
        default(2, layouts=["documents"], masks=[CAUSAL])


def test_where_dp_splits_the_batch_decode_has_no_documents():
    for case in default(4, dp=2, phases=["decode"]):
        assert {p.batch for p in case.problems} == {2}


def test_tp_and_dp_stand_around_the_axes_of_the_algorithm():
    assert {str(c.mesh) for c in default(8, tp=2, dp=2) if c.algorithm == "ring"} == {"dp=2,ring=2,tp=2"}
    assert Job(2, 2, 2).size == 8


@pytest.mark.parametrize("mesh, told", [("ring=8", "needs 8 ranks: MPI has 4"), ("ring=2", "uses 2 ranks: MPI has 4")])
def test_a_mesh_of_another_size_than_the_ranks_is_refused(mesh, told):
    with pytest.raises(BadInput, match=told):
        default(4, mesh=mesh)


def test_algorithms_of_other_axes_than_the_mesh_are_told():
    found, others = cases(EVERY, Asked(mesh="row=2,col=2"), 4, "MPI has 4")

    assert {c.algorithm for c in found} == {"attention2d", "attention2d_overlapped"}
    assert ("ring", "prefill needs mesh axes ring, got row=2,col=2") in others
