"""Is a result exact? Dense attention in float64 beside it, and the error as a share of its bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from algorithms.ir import Attention, Schedule
from algorithms.ir.score import Score, alibi_slopes
from executor.arrays import Array, Arrays, assemble
from executor.errors import WrongResult
from executor.exactness import backward_bounds, error, forward_bounds, worst_ratio
from executor.half import AT_MOST, HALF_EPS, lost
from executor.kernels.dense import dense, dense_backward
from executor.kernels.shapes import COMPUTED_IN

Parts = Mapping[str, Sequence[Any]]  # each result's arrays, by rank


@dataclass(frozen=True)
class Reference:
    """What each result should be, in float64, and how far from it it may be, by name."""

    expected: Arrays
    allowed: Mapping[str, Array | float]


class Verdict(NamedTuple):
    """The greatest error of a result as a share of its bound (at most 1 is exact), and what is wrong, if known."""

    share: float
    result: str
    fault: str = ""


def reference(problem: Attention, arrays: Arrays, half_weights: bool = False) -> Reference:
    """Compute dense attention of a problem, and of its gradients if it trains.

    Args:
        half_weights: allow what dense attention in the half type of q loses, twice.
    """
    q, k, rows, cols = arrays["q"], arrays["k"], *positions(problem)
    v = k[..., : problem.head_dim_v] if problem.shared_kv else arrays["v"]
    sinks = np.tile(arrays["sinks"], problem.batch) if problem.sinks else None
    mask, score, (eps, kept) = problem.mask, score_of(problem), epsilons(problem)
    state = dense(q, k, v, rows, cols, mask, score, sinks=sinks)
    expected: dict[str, Array] = dict(zip(("out", "lse"), state, strict=True))
    allowed: dict[str, Array | float] = forward_bounds(q, k, v, rows, cols, mask, score, eps, kept, sinks)._asdict()
    if half_weights and problem.dtype in HALF_EPS:
        for name, more in lost(q, k, v, rows, cols, mask, score)._asdict().items():
            allowed[name] = allowed[name] + AT_MOST * more
    if problem.phase == "train":
        do = arrays["do"]
        gradients = dense_backward(q, k, v, do, rows, cols, mask, score, sinks=sinks)
        bounds = backward_bounds(q, k, v, do, rows, cols, mask, score, eps, kept, sinks)
        expected |= named(gradients, problem)
        allowed |= named(bounds, problem)
    return Reference(expected, allowed)


def score_of(problem: Attention) -> Score:
    """How logits are made of all heads, batch folded in."""
    slopes = np.tile(alibi_slopes(problem.heads), problem.batch) if problem.alibi else None
    return Score(problem.scale, problem.softcap, slopes)


def positions(problem: Attention) -> tuple[Array, Array]:
    """Global positions of all queries and of all keys."""
    return problem.query_runs.positions(), np.arange(problem.key_len)


def epsilons(problem: Attention) -> tuple[float, float]:
    """The coarsest eps of the dtypes that a problem is computed in, and of those it is kept in, if coarser, else 0.

    Half types are computed and usually kept in float32, and then held to its eps, on the values they stand for.
    """
    computed = max(_eps(COMPUTED_IN[name].name) for name in (problem.dtype, problem.kv_dtype))
    kept = max(_eps(problem.state_dtype), _eps(problem.grad_dtype) if problem.phase == "train" else 0.0)
    return computed, kept if kept > computed else 0.0


def _eps(dtype: str) -> float:
    return float(np.finfo(dtype).eps)


def named(gradients: Sequence[Array], problem: Attention) -> dict[str, Array]:
    """Gradients by name; where K and V are one tensor, so are theirs: the first columns of dk carry dv too.

    Those of sinks are of one row, (1, batch * heads): a sequence's own.
    """
    dq, dk, dv, dsinks = (np.asarray(x) for x in gradients)
    if problem.shared_kv:
        dk = dk.copy()
        dk[..., : problem.head_dim_v] += dv
        dv = dk
    return {"dq": dq, "dk": dk, "dv": dv} | ({"dsinks": dsinks[None]} if problem.sinks else {})


def judge(schedule: Schedule, parts: Parts, known: Reference) -> Verdict:
    """Compare all ranks' results with the reference, and name the worst of them."""
    missing, unknown = known.expected.keys() - {"lse"} - parts.keys(), parts.keys() - known.expected.keys()
    for name in sorted(missing | unknown):
        fault = "there is no such result" if name in missing else "nothing is known of such a result"
        return Verdict(float("inf"), name, fault)
    try:
        name, share = max(shares(schedule, parts, known).items(), key=lambda item: item[1])
    except WrongResult as fault:
        return Verdict(float("inf"), "", str(fault))
    return Verdict(share, name)


def shares(schedule: Schedule, parts: Parts, known: Reference) -> dict[str, float]:
    """The greatest error of each result, as a share of its bound, whichever rank holds it.

    Raises:
        WrongResult: a result has another shape.
    """
    found = {}
    for name, ranks in parts.items():
        found[name] = max(_share(name, whole.astype(np.float64), known) for whole in assemble(schedule, name, ranks))
    return found


def _share(name: str, whole: Array, known: Reference) -> float:
    if whole.shape != (shape := known.expected[name].shape):
        raise WrongResult(f"{name} has shape {whole.shape}, expected {shape}")
    return worst_ratio(error(whole, known.expected[name]), known.allowed[name])
