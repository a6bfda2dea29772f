"""What is refused before anything runs: types NumPy lacks, sizes that never end, inputs that would prove nothing."""

from __future__ import annotations

import os
from math import inf, prod, sqrt

import numpy as np

from algorithms.ir import Attention
from algorithms.ir.score import alibi_slopes
from executor.arrays import Array, Arrays, input_types
from executor.errors import BadInput
from executor.exactness import FACTOR
from executor.kernels.shapes import COMPUTED_IN

RUNNABLE = ("float64", "float32", "float16")
ENTERING = ("dtype", "kv_dtype")  # dtypes that may be bfloat16, where ml_dtypes has it
MOST_SCORES = 2**38
LOOSEST = 1 / 8  # a bound on out, as a share of the greatest value: beyond it, wrong attention would pass


def check_dtypes(problem: Attention) -> None:
    """Refuse types that NumPy does not have; bfloat16 comes with ml_dtypes.

    Raises:
        BadInput: the first such dtype of the problem.
    """
    for name in ("dtype", "kv_dtype", "state_dtype", "grad_dtype"):
        value = getattr(problem, name)
        if value == "bfloat16" and name in ENTERING and _has_bfloat16():
            continue
        if value not in RUNNABLE:
            more = ", or bfloat16 once ml_dtypes is installed" if value == "bfloat16" and name in ENTERING else ""
            expected = ", ".join(RUNNABLE) + more
            raise BadInput(f"{name} {value} cannot be run, NumPy has no such type: expected {expected}")


def _has_bfloat16() -> bool:
    try:
        import ml_dtypes  # noqa: F401, which names it to NumPy
    except ImportError:
        return False
    return True


def check_size(problem: Attention) -> None:
    """Refuse a problem too large to run here, or to compute densely beside it.

    Raises:
        BadInput: inputs of more than a quarter of the memory, or more scores than a reference takes in an hour.
    """
    check_memory_of(problem)
    scores = problem.batch * problem.heads * problem.query_len * problem.key_len
    if scores > MOST_SCORES:
        raise BadInput(f"{scores:.3g} scores are too many to compute densely as a reference: at most {MOST_SCORES:.3g}")


def check_memory_of(problem: Attention) -> None:
    """Refuse a problem whose inputs are too large to make here.

    Raises:
        BadInput: they are more than a quarter of the memory.
    """
    check_memory(sum(prod(shape) * np.dtype(dtype).itemsize for shape, dtype in input_types(problem).values()))


def check_memory(needed: int) -> None:
    """Refuse inputs of so many bytes.

    Raises:
        BadInput: they are more than a quarter of the memory.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**34
    if needed > memory // 4:
        have = f"memory is {memory / 2**30:.3g} GiB"
        raise BadInput(f"inputs of {needed / 2**30:.3g} GiB are too large to run here: {have}")


def check_inputs(problem: Attention, arrays: Arrays) -> None:
    """Refuse inputs that do not fit the problem, are not finite, or so large that nothing would be proven.

    Raises:
        BadInput: an array that is missing, of another shape or dtype, or holds a NaN or an infinity; scores or
            products that the dtype cannot tell apart or hold.
    """
    for name, (shape, dtype) in input_types(problem).items():
        if name not in arrays:
            raise BadInput(f"input {name} is missing: expected {dtype} {shape}")
        array = arrays[name]
        if array.shape != shape or array.dtype.name != dtype:
            raise BadInput(f"input {name} must be {dtype} {shape}, got {array.dtype.name} {array.shape}")
        finite = np.isfinite(array)
        if not finite.all():
            at = tuple(int(i) for i in np.argwhere(~finite)[0])
            raise BadInput(f"inputs must be finite: {name}{list(at)} is {array[at]}")
        _check_products(name, array)
    _check_scores(problem, arrays)


def _check_products(name: str, array: Array) -> None:
    """Products of inputs must be numbers, or a right result is no number either."""
    computed = COMPUTED_IN[array.dtype.name]
    largest, limit = float(np.abs(array).max(initial=0)), sqrt(np.finfo(computed).max)
    if largest > limit:
        raise BadInput(f"input {name} holds {largest:.3g}: {computed.name} has no products of numbers over {limit:.2g}")


def _check_scores(problem: Attention, arrays: Arrays) -> None:
    """The bound on out grows with the scores: it must still be far below the values, or nothing could fail it.

    By Cauchy and Schwarz, max|q . k| <= max|q| max|k|.
    """
    with np.errstate(over="ignore"):
        wide = (arrays[name].astype(np.float64) for name in ("q", "k"))
        lengths = [float(np.linalg.norm(x, axis=-1).max(initial=0.0)) for x in wide]
    computed = COMPUTED_IN[problem.dtype]
    limit = LOOSEST / (FACTOR * float(np.finfo(computed).eps)) - 1
    largest = min(prod(lengths) * problem.scale, problem.softcap or inf)
    if problem.alibi:
        largest += float(alibi_slopes(problem.heads).max()) * (min(problem.mask.reach, problem.key_len - 1))
    if problem.sinks:
        largest = max(largest, float(np.abs(arrays["sinks"]).max()))
    if largest > limit:
        raise BadInput(
            f"scores may reach {largest:.3g}, where {computed.name} tells too few weights apart to prove anything: "
            f"at most {limit:.2g}"
        )
