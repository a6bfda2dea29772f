"""On a real GPU: what the played one shows, and what only a real one can. Skipped where there is none."""

import numpy as np
import pytest

from executor.errors import BadInput
from executor.gpu import visible
from executor.gpu.sources import FILES
from executor.kernels import cuda_tiles
from tests.executor.attention_cases import ORDERS, case, ratios
from tests.gpu.machine import Hosted, Real

try:
    visible.require()
    REASON = ""
except BadInput as error:
    REASON = str(error)

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(REASON), reason=REASON)]


@pytest.fixture(scope="module")
def on():
    return Real()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("changes", [{}, {"softcap": 2.0, "alibi": True}], ids=["plain", "changed"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mask", ["full", "causal", "window:11", "full,documents:30+1+40*9"])
def test_exact_for_every_mask_order_change_and_dtype(on, mask, order, changes, dtype):
    found = ratios(Hosted(on), case(heads=(4, 2), dims=(19, 7), dtype=dtype, mask=mask, order=order, **changes))
    assert max(found.values()) <= 1, found


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_exact_across_tiles_of_the_real_size(on, mask, dtype):
    dims = (4, 3) if dtype == "float64" else (64, 64)  # the reference of long doubles has no BLAS
    found = ratios(Hosted(on), case(n=1500, m=4700, heads=(2, 1), dims=dims, mask=mask, dtype=dtype))
    assert max(found.values()) <= 1, found


def test_two_runs_give_the_same_bits(on):
    first, second = (Hosted(on).attend(*case(n=300, m=300, heads=(4, 2)).block) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_real_and_the_played_gpu_agree_to_rounding(on, monkeypatch):
    from tests.gpu import emulated

    if emulated.COMPILER is None:
        pytest.skip(emulated.MISSING)
    c = case(heads=(4, 2), softcap=2.0, alibi=True)
    real = Hosted(on).attend(*c.block)
    played = emulated.Emulated()
    monkeypatch.setattr(cuda_tiles, "engine", lambda: played)
    for a, b in zip(real, cuda_tiles.attend(*c.block), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


def test_every_module_loads(on):
    for name in FILES:
        on.engine._module(name)
