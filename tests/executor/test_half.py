"""Kernels that round weights to a half type may lose twice what dense attention in that type does, and no more."""

import numpy as np
import pytest

from algorithms.ir import Attention
from executor.arrays import random_inputs
from executor.exact import reference
from executor.exactness import error
from executor.half import lost
from executor.kernels import find
from tests.executor.attention_cases import case

PROBLEM = Attention(4, 2, 16, 64, 64, mask="causal", dtype="float16", kv_dtype="float16")


def rounded(problem, mask=None):
    """What a kernel gives whose results are rounded to float16, and which may be given another mask."""
    arrays = random_inputs(problem)
    at = np.arange(64)
    block = (arrays["q"], arrays["k"], arrays["v"], at, at, mask or problem.mask, case(dims=(16, 16)).score)
    out, lse = find("numpy").attend(*block)
    return {"out": out.astype(np.float16).astype(float), "lse": lse.astype(float)}


def share(name, mask=None, half_weights=True):
    known = reference(PROBLEM, random_inputs(PROBLEM), half_weights)
    return float(error(rounded(PROBLEM, mask)[name], known.expected[name]).max() / known.allowed[name])


def test_a_kernel_that_rounds_is_within_the_bound_of_half_types_and_not_of_float32():
    assert share("out") <= 1
    assert share("out", half_weights=False) > 1


@pytest.mark.parametrize("mask", ["window:63", "window:40", "full"])
@pytest.mark.parametrize("name", ["out", "lse"])
def test_a_wrong_mask_is_outside_that_bound(name, mask):
    assert share(name, case(mask=mask).mask) > 1


def test_nothing_is_lost_of_what_a_half_type_can_hold():
    c = case(n=3, m=1, mask="full", dtype=np.float16)  # one key: the weight is 1 and the output is the value
    assert lost(*c.block).out == 0
