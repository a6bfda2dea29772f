"""What is refused before anything runs: no such type, no end, or nothing that could fail."""

import contextlib

import numpy as np
import pytest

from algorithms.ir import Attention
from executor import limits
from executor.arrays import random_inputs
from executor.errors import BadInput
from executor.limits import check_dtypes, check_inputs, check_size

PROBLEM = Attention(4, 2, 8, 10, 13, dtype="float64", state_dtype="float64")


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
def test_types_that_numpy_lacks_are_refused(field, dtype, monkeypatch):
    monkeypatch.setattr(limits, "_has_bfloat16", lambda: False)
    types = {"dtype": "float64", "kv_dtype": "float64", "state_dtype": "float64", "grad_dtype": "float64"}

    with pytest.raises(BadInput, match=f"{field} {dtype} cannot be run, NumPy has no such type: expected float64, f"):
        check_dtypes(Attention(4, 2, 8, 10, 13, **types | {field: dtype}))


@pytest.mark.parametrize("field, runs", [("dtype", True), ("kv_dtype", True), ("state_dtype", False)])
def test_bfloat16_enters_where_ml_dtypes_has_it_and_is_no_type_of_states(field, runs, monkeypatch):
    monkeypatch.setattr(limits, "_has_bfloat16", lambda: True)
    types = {"dtype": "float32", "kv_dtype": "float32", "state_dtype": "float32", "grad_dtype": "float32"}

    with contextlib.nullcontext() if runs else pytest.raises(BadInput, match="state_dtype bfloat16 cannot be run"):
        check_dtypes(Attention(4, 2, 8, 10, 13, **types | {field: "bfloat16"}))


@pytest.mark.parametrize(
    "sizes, message",
    [({"key_len": 2**40}, "GiB are too large to run here"), ({"query_len": 2**19, "key_len": 2**19}, "scores are too")],
)
def test_what_would_never_end_is_refused(sizes, message):
    with pytest.raises(BadInput, match=message):
        check_size(Attention(**{"heads": 4, "kv_heads": 1, "head_dim": 1, "query_len": 1, "dtype": "float64", **sizes}))


def scaled(dtype, **factors):
    """Random inputs, some of them many times as large."""
    problem = Attention(4, 2, 8, 10, 13, dtype=dtype)
    arrays = random_inputs(problem)
    return problem, {name: (x * factors.get(name, 1.0)).astype(x.dtype) for name, x in arrays.items()}


@pytest.mark.parametrize("dtype, factor", [("float64", 1e7), ("float32", 1e3), ("float16", 1e3)])
def test_scores_that_leave_a_dtype_no_digits_prove_nothing_and_are_refused(dtype, factor):
    # the bound grows with the scores: past some size, any attention would be within it
    with pytest.raises(BadInput, match=r"scores may reach .*e\+.*, where float(64|32) tells too few weights apart"):
        check_inputs(*scaled(dtype, q=factor, k=factor))


@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize("dtype, factor", [("float64", 1e200), ("float32", 1e25)])
def test_inputs_whose_products_overflow_are_refused(dtype, factor, name):
    # attention of them is no number, and no number would equal no number
    with pytest.raises(BadInput, match=f"input {name} holds .*: {dtype} has no products of numbers over"):
        check_inputs(*scaled(dtype, **{name: factor}))


@pytest.mark.parametrize("dtype, factor", [("float64", 1e6), ("float32", 50.0), ("float16", 50.0), ("float64", 1e-200)])
def test_large_and_small_inputs_are_accepted(dtype, factor):
    check_inputs(*scaled(dtype, q=factor, k=factor, v=factor))
