"""Kinds of layers: each is a change of the problem's mask and scores, and nothing else."""

from dataclasses import replace

import pytest

from algorithms.ir import Attention
from algorithms.ir.mask import Mask
from algorithms.kinds import Kind

CAUSAL = Attention(8, 2, 64, 4096, 4096, mask="causal")


def test_a_window_narrower_than_the_sequence_is_the_mask_and_a_wider_one_changes_nothing():
    assert Kind(1, 128).change(CAUSAL, "m") == replace(CAUSAL, mask="window:128")
    assert Kind(1, 4095).change(CAUSAL, "m").mask == Mask(causal=True, window=4095)
    assert Kind(1, 4096).change(CAUSAL, "m") is CAUSAL
    assert Kind(1).change(CAUSAL, "m") is CAUSAL


@pytest.mark.parametrize("asked, has, sees", [("window:100", 200, 100), ("window:300", 200, 200)])
def test_of_two_windows_the_narrower_counts(asked, has, sees):
    assert Kind(1, has).change(replace(CAUSAL, mask=asked), "m").mask.window == sees


def test_packed_documents_stay_packed():
    packed = replace(CAUSAL, mask="documents:4000+96")

    assert Kind(1, 128).change(packed, "m").mask == Mask(causal=True, window=128, documents=(4000, 96))


@pytest.mark.parametrize("mask", ["full", "full,documents:4000+96"])
def test_a_window_wants_a_causal_mask(mask):
    with pytest.raises(ValueError, match="a sliding window is causal, and gemma has one of 128: the mask is full"):
        Kind(1, 128).change(replace(CAUSAL, mask=mask), "gemma")


def test_sinks_and_caps_are_the_layers_own():
    changed = Kind(1, softcap=50.0, sinks=True).change(CAUSAL, "m")

    assert (changed.softcap, changed.sinks, changed.mask) == (50.0, True, CAUSAL.mask)


def test_a_cap_that_is_typed_is_the_models_or_is_refused():
    assert Kind(1, softcap=50.0).change(replace(CAUSAL, softcap=50.0), "m").softcap == 50.0
    with pytest.raises(ValueError, match="gemma caps its scores at 50: softcap 30 is another"):
        Kind(1, softcap=50.0).change(replace(CAUSAL, softcap=30.0), "gemma")
