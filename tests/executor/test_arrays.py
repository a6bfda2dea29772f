"""Whole arrays in and out: how they are drawn, and how results are put together."""

from dataclasses import replace

import numpy as np
import pytest

from algorithms.helix import helix
from algorithms.ir import Attention, Mesh, Value
from algorithms.ring import ring_attention
from algorithms.tree import tree_decode
from executor.arrays import assemble, input_types, random_inputs
from executor.errors import WrongResult

PROBLEM = Attention(4, 2, 8, 10, 13, dtype="float64", state_dtype="float64")


def test_inputs_are_drawn_alike_on_every_rank_and_fit_the_problem():
    first, second = random_inputs(PROBLEM, 3), random_inputs(PROBLEM, 3)

    assert {name: (x.shape, x.dtype.name) for name, x in first.items()} == input_types(PROBLEM)
    assert all((first[name] == second[name]).all() for name in first)
    assert (random_inputs(PROBLEM, 4)["q"] != first["q"]).any()


def test_rows_that_no_rank_holds_are_nan():
    schedule = ring_attention(PROBLEM, Mesh(ring=2))
    half = [np.ones((5, 4, 8)), np.ones((5, 4, 8))]
    half[1][2] = np.nan

    (whole,) = assemble(schedule, "out", half)

    assert np.isnan(whole[7]).all()
    assert not np.isnan(np.delete(whole, 7, axis=0)).any()


def test_heads_and_batches_go_back_to_their_places():
    problem = Attention(4, 2, 1, 3, 3, batch=2, dtype="float64", state_dtype="float64")
    schedule = ring_attention(problem, Mesh(dp=2, ring=1, tp=2))
    # folded heads 0..7 are batch 0 heads 0..3, batch 1 heads 0..3: two a rank
    parts = [np.full((3, 2, 1), rank) for rank in range(4)]

    (whole,) = assemble(schedule, "out", parts)

    assert whole[0, :, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_results_dealt_by_heads_go_back_to_their_places():
    # of each rank's share of the job, heads 0 and 1 of every sequence, the members hold one after the other
    problem = Attention(4, 2, 1, 1, 3, batch=2, dtype="float64", state_dtype="float64", phase="decode")
    schedule = helix(problem, Mesh(cp=2, tp=2))
    parts = [np.full((1, 2, 1), rank) for rank in range(4)]

    (whole,) = assemble(schedule, "out", parts)

    assert whole[0, :, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_result_that_every_rank_holds_is_put_together_for_each():
    schedule = tree_decode(PROBLEM, Mesh(cp=2))
    parts = [np.zeros((10, 4)), np.zeros((10, 4))]
    parts[1][4, 2] = 1e-300

    first, second = assemble(schedule, "lse", parts)

    assert (first == parts[0]).all()
    assert (second == parts[1]).all()


@pytest.mark.parametrize("part", [np.zeros((1, 4, 8)), np.zeros((5, 1, 8)), np.zeros((5, 4, 1)), np.zeros(()), None])
def test_a_part_of_another_shape_is_not_stretched(part):
    schedule = ring_attention(PROBLEM, Mesh(ring=2))

    with pytest.raises(WrongResult, match=r"out of rank 1 has shape .*, its rows and heads make \(5, 4, 8\)"):
        assemble(schedule, "out", [np.zeros((5, 4, 8)), part])


def test_rows_of_the_other_side_are_not_put_among_the_results():
    # keys 0..2 are before the first query: position - 3 would count from the end
    schedule = ring_attention(PROBLEM, Mesh(ring=2))
    keys = next(op.outputs[0] for op in schedule.ops if op.params.get("name") == "k")
    mutant = replace(
        schedule, results={"out": Value(0, replace(schedule.results["out"].type, rows=keys.type.rows), keys.tokens)}
    )

    with pytest.raises(WrongResult, match="out of rank 0 has rows that are none of the 10 of the result"):
        assemble(mutant, "out", [np.zeros((6, 4, 8)), np.zeros((7, 4, 8))])
