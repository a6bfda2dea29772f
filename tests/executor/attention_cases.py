"""Inputs for the kernel tests, and the one way in which they compare a kernel with dense attention."""

from typing import Any, NamedTuple

import numpy as np

from algorithms.ir.mask import Mask, as_mask
from algorithms.ir.score import Score, alibi_slopes
from executor.exactness import backward_bounds, error, forward_bounds, worst_ratio
from executor.kernels import Array, Kernel, Positions, forward
from executor.kernels.dense import dense, dense_backward

ORDERS = ("contiguous", "zigzag", "striped", "shuffled")


class Case(NamedTuple):
    q: Array
    k: Array
    v: Array
    do: Array
    rows: Positions
    cols: Positions
    mask: Mask
    score: Score

    @property
    def block(self) -> tuple[Any, ...]:
        return self.q, self.k, self.v, self.rows, self.cols, self.mask, self.score

    @property
    def block_with_do(self) -> tuple[Any, ...]:
        return self.q, self.k, self.v, self.do, self.rows, self.cols, self.mask, self.score


def positions(order: str, count: int, rng: np.random.Generator) -> Positions:
    """The tokens of one shard: the second of four in a layout, or any tokens in any order."""
    index = np.arange(count)
    if order == "contiguous":
        return index + count
    if order == "zigzag":  # chunks 1 and 6 of 8
        half = (count + 1) // 2
        return np.where(index < half, half + index, 6 * half + index - half)
    if order == "striped":
        return 4 * index + 1
    return rng.permutation(3 * count)[:count]


def case(
    n: int = 37,
    m: int = 53,
    heads: tuple[int, int] = (2, 2),
    dims: tuple[int, int] = (16, 16),
    dtype: Any = np.float64,
    mask: str | Mask = "causal",
    order: str = "contiguous",
    largest_logit: float = 4.0,
    seed: int = 0,
    softcap: float = 0.0,
    alibi: bool = False,
) -> Case:
    """Normal inputs whose scores spread over about +-largest_logit; `heads` is (query, kv), `dims` (qk, v)."""
    rng = np.random.default_rng(seed)
    size = (largest_logit / 4) ** 0.5
    q = size * rng.standard_normal((n, heads[0], dims[0]))
    k = size * rng.standard_normal((m, heads[1], dims[0]))
    v = rng.standard_normal((m, heads[1], dims[1]))
    do = rng.standard_normal((n, heads[0], dims[1]))
    rows, cols = positions(order, n, rng), positions(order, m, rng)
    if order == "contiguous":
        rows = np.arange(n) + max(0, m - n // 4)  # some queries come before the last keys
    arrays = (x.astype(dtype) for x in (q, k, v, do))
    score = Score(dims[0] ** -0.5, softcap, alibi_slopes(heads[0]) if alibi else None)
    return Case(*arrays, rows, cols, as_mask(mask), score)


def precise(c: Case) -> Any:
    """The dtype of a reference: longer than the computation's; long doubles have no BLAS, and are slow."""
    return np.longdouble if c.q.dtype == np.float64 else np.float64


def forward_ratios(kernel: Kernel, c: Case) -> dict[str, float]:
    """The worst error of out and lse, as a multiple of what is allowed."""
    out, lse = kernel.attend(*c.block)
    bounds = forward_bounds(*c.block, eps=float(np.finfo(out.dtype).eps))
    expected_out, expected_lse = dense(*c.block, dtype=precise(c))
    return {
        "out": worst_ratio(error(out, expected_out), bounds.out),
        "lse": worst_ratio(error(lse, expected_lse), bounds.lse),
    }


def backward_ratios(kernel: Kernel, c: Case) -> dict[str, float]:
    """The worst error of dq, dk and dv, as a multiple of what is allowed, from the right lse and delta."""
    out, lse = dense(*c.block)
    computed_in = np.result_type(c.q, np.float32)
    delta = (c.do * out).sum(axis=2).astype(computed_in)
    grads = kernel.attend_backward(*c.block[:3], c.do, lse.astype(computed_in), delta, *c.block[3:])
    bounds = backward_bounds(*c.block_with_do, eps=float(np.finfo(grads[0].dtype).eps))
    expected = dense_backward(*c.block_with_do, dtype=precise(c))
    return {
        name: worst_ratio(error(grad, want), bound)
        for name, grad, want, bound in zip(("dq", "dk", "dv"), grads, expected[:3], bounds[:3], strict=True)
    }


def ratios(kernel: Kernel, c: Case) -> dict[str, float]:
    """Every ratio; exact means that none exceeds 1."""
    return forward_ratios(kernel, c) | backward_ratios(kernel, c)


def set_tiles(patch: Any, side: int, longest: int) -> None:
    """Make tiles so small that a small case has many of them."""
    patch.setattr(forward, "FULL_SIDE", side)
    patch.setattr(forward, "MASKED_SIDE", side)
    patch.setattr(forward, "LONGEST", longest)


def check_that_nan_stays(kernel: Kernel, dtype: str) -> None:
    """Assert that a NaN of a query and one of a key reach the rows that see them and leave the bits of others."""
    c = case(mask="causal", dtype=dtype)
    clean_out, clean_lse = kernel.attend(*c.block)
    c.q[20, 1, 3] = np.nan
    c.k[9, 0, 5] = np.nan
    sick = np.zeros((37, 2), bool)
    sick[20, 1] = True
    sick[:, 0] = c.rows >= c.cols[9]

    out, lse = kernel.attend(*c.block)

    assert np.isnan(lse[sick]).all()
    assert np.isnan(out[sick]).all()
    assert np.array_equal(out[~sick], clean_out[~sick])
    assert np.array_equal(lse[~sick], clean_lse[~sick])
