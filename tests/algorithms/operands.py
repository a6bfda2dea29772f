"""Arrays for the tests of what ops mean: states of attention, queries, keys and values."""

import numpy as np

from algorithms.ops import merge

H, D, DV = 4, 6, 5
ROUNDING = {"rtol": 1e-13, "atol": 1e-13}


def states(seed, n=7, blind=2):
    """Partial states of n rows, of which the first `blind` have seen nothing."""
    rng = np.random.default_rng(seed)
    out, lse = rng.normal(size=(n, H, DV)), rng.normal(scale=20, size=(n, H))
    out[:blind], lse[:blind] = 0, -np.inf
    return out, lse


def merged(a, b):
    return merge.meaning(np, *a, *b)


def assert_same(one, other):
    for x, y in zip(one, other, strict=True):
        np.testing.assert_allclose(x, y, **ROUNDING)


def operands(n=9, m=11, group=2, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [(n, H, D), (m, H // group, D), (m, H // group, DV)]
    return [rng.normal(size=shape) for shape in shapes]
