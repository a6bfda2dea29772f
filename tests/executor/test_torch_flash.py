"""Torch's flash kernel behind our contract: blocks cut into what it knows, and held to what half types lose."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ir.mask import CAUSAL, FULL, sees
from executor.errors import BadInput
from executor.kernels import torch_flash
from executor.kernels.torch_flash import pieces
from tests.executor.attention_cases import case, forward_ratios, positions


@given(
    st.integers(0, 30), st.integers(0, 30), st.sampled_from(["contiguous", "zigzag"]), st.booleans(), st.integers(0, 40)
)
def test_every_visible_pair_is_in_one_piece_and_no_other_is(n, m, order, causal, shift):
    rng = np.random.default_rng(0)
    rows, cols, mask = positions(order, n, rng) + shift, positions(order, m, rng), CAUSAL if causal else FULL
    met = np.zeros((n, m), int)
    for piece in pieces(rows, cols, mask):
        part = met[piece.rows, piece.keys]
        if piece.causal:
            assert part.shape[0] == part.shape[1]
        part += np.tri(*part.shape, dtype=int) if piece.causal else 1

    assert (met == sees(mask, rows[:, None], cols[None, :])).all()


def test_striped_positions_are_refused():
    with pytest.raises(BadInput, match="kernel torch needs tokens in long runs, got 37 of 37: use cuda"):
        list(pieces(np.arange(37) * 4, np.arange(37) * 4, CAUSAL))


def test_without_torch_one_line_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    torch_flash._torch.cache_clear()
    with pytest.raises(BadInput, match="--kernel torch needs torch, which ringloom does not install"):
        torch_flash.attend(*case().block)


@pytest.mark.parametrize("change", [{"mask": "window:4"}, {"softcap": 2.0}, {"dims": (16, 8)}])
def test_what_it_does_not_know_is_refused(monkeypatch, change):
    monkeypatch.setattr(torch_flash, "_torch", lambda: None)
    with pytest.raises(BadInput, match=r"kernel torch .* use cuda"):
        torch_flash.attend(*case(**change).block)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("order", ["contiguous", "zigzag"])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_torch_on_the_cpu_is_exact(mask, order, dtype):
    pytest.importorskip("torch", reason="torch, a peer and no dependency, is not installed")
    torch_flash._torch.cache_clear()
    found = forward_ratios(torch_flash, case(heads=(4, 2), mask=mask, order=order, dtype=dtype))
    assert max(found.values()) <= 1, found
