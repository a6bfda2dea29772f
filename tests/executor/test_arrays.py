"""Whole arrays in and out: what is refused, and how results are put together."""

import numpy as np
import pytest

from algorithms.ir import Attention, Mesh
from algorithms.ring import ring_attention
from executor.arrays import assemble, input_types, random_inputs
from executor.errors import BadInput, WrongResult
from executor.limits import check_dtypes, check_inputs, check_size

PROBLEM = Attention(4, 2, 8, 10, 13, dtype="float64", state_dtype="float64")


def test_inputs_are_drawn_alike_on_every_rank_and_fit_the_problem():
    first, second = random_inputs(PROBLEM, 3), random_inputs(PROBLEM, 3)

    assert {name: (x.shape, x.dtype.name) for name, x in first.items()} == input_types(PROBLEM)
    assert all((first[name] == second[name]).all() for name in first)
    assert (random_inputs(PROBLEM, 4)["q"] != first["q"]).any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_what_is_not_finite_is_named_with_its_place(name, value):
    arrays = random_inputs(PROBLEM)
    arrays[name][3, 1, 5] = value

    with pytest.raises(BadInput, match=rf"inputs must be finite: {name}\[3, 1, 5\] is {value}"):
        check_inputs(PROBLEM, arrays)


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda a: a.pop("v"), r"input v is missing: expected float64 \(13, 2, 8\)"),
        (lambda a: a.update(q=a["q"][1:]), r"input q must be float64 \(10, 4, 8\), got float64 \(9, 4, 8\)"),
        (lambda a: a.update(k=a["k"].astype("float32")), r"input k must be float64 .*, got float32 "),
    ],
)
def test_arrays_of_another_problem_are_refused(spoil, message):
    arrays = random_inputs(PROBLEM)
    spoil(arrays)

    with pytest.raises(BadInput, match=message):
        check_inputs(PROBLEM, arrays)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3", "float8_e5m2"])
@pytest.mark.parametrize("field", ["dtype", "kv_dtype", "state_dtype", "grad_dtype"])
def test_types_that_numpy_lacks_are_refused(field, dtype):
    types = {"dtype": "float64", "kv_dtype": "float64", "state_dtype": "float64", "grad_dtype": "float64"}

    with pytest.raises(BadInput, match=f"{field} {dtype} cannot be run, NumPy has no such type: expected float64, f"):
        check_dtypes(Attention(4, 2, 8, 10, 13, **types | {field: dtype}))


@pytest.mark.parametrize(
    "sizes, message",
    [({"key_len": 2**40}, "GiB are too large to run here"), ({"query_len": 2**19, "key_len": 2**19}, "scores are too")],
)
def test_what_would_never_end_is_refused(sizes, message):
    with pytest.raises(BadInput, match=message):
        check_size(Attention(**{"heads": 4, "kv_heads": 1, "head_dim": 1, "query_len": 1, "dtype": "float64", **sizes}))


def test_rows_that_no_rank_holds_are_nan():
    schedule = ring_attention(PROBLEM, Mesh(ring=2))
    half = [np.ones((5, 4, 8)), np.ones((5, 4, 8))]
    half[1][2] = np.nan

    assert np.isnan(assemble(schedule, "out", half)[7]).all()
    assert not np.isnan(np.delete(assemble(schedule, "out", half), 7, axis=0)).any()


def test_heads_and_batches_go_back_to_their_places():
    problem = Attention(4, 2, 1, 3, 3, batch=2, dtype="float64", state_dtype="float64")
    schedule = ring_attention(problem, Mesh(dp=2, ring=1, tp=2))
    # folded heads 0..7 are batch 0 heads 0..3, batch 1 heads 0..3: two a rank
    parts = [np.full((3, 2, 1), rank) for rank in range(4)]

    assert assemble(schedule, "out", parts)[0, :, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_copies_of_a_result_must_be_equal():
    from algorithms.tree import tree_decode

    schedule = tree_decode(PROBLEM, Mesh(cp=2))
    parts = [np.zeros((10, 4)), np.zeros((10, 4))]
    parts[1][4, 2] = 1e-300

    with pytest.raises(WrongResult, match="lse of position 7 on rank 1 differs from that of another rank"):
        assemble(schedule, "lse", parts)
