"""Masks: each gives a query one interval of keys, which says what its definition says, pair by pair."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ir import ScheduleError
from algorithms.ir.mask import ANYWHERE, CAUSAL, FULL, Mask, parse_mask, sees

LENGTHS = st.lists(st.integers(1, 12), max_size=5).map(tuple)
MASKS = st.builds(
    lambda causal, window, documents: Mask(causal, window if causal else 0, documents),
    st.booleans(),
    st.integers(0, 20),
    LENGTHS,
)


def defined(mask, n):
    """Who sees whom, (n, n), written out pair by pair."""
    document = np.repeat(np.arange(len(mask.documents)), mask.documents) if mask.documents else np.zeros(n, int)
    visible = np.zeros((n, n), bool)
    for q in range(n):
        for k in range(n):
            later, far = k > q, mask.window and q - k >= mask.window
            visible[q, k] = document[q] == document[k] and not (mask.causal and (later or far))
    return visible


@given(MASKS)
def test_every_mask_gives_each_query_one_interval_of_keys(mask):
    n = sum(mask.documents) or 30
    at = np.arange(n)

    np.testing.assert_array_equal(sees(mask, at[:, None], at[None, :]), defined(mask, n))


@given(MASKS)
def test_every_key_is_seen_by_one_interval_of_queries(mask):
    n = sum(mask.documents) or 30
    at = np.arange(n)
    first, last = mask.seen_by(at)

    found = (first[None, :] <= at[:, None]) & (at[:, None] <= last[None, :])

    np.testing.assert_array_equal(found, defined(mask, n))


@given(MASKS)
def test_intervals_move_on_with_the_query(mask):
    first, last = mask.interval(np.arange(sum(mask.documents) or 30))

    assert (np.diff(first) >= 0).all()
    assert (np.diff(last) >= 0).all()


@given(MASKS)
def test_reach_is_how_far_back_a_query_sees(mask):
    n = sum(mask.documents) or 30
    back = max(q - np.flatnonzero(row)[0] for q, row in enumerate(defined(mask, n)))

    assert back == min(mask.reach, n - 1)


@given(MASKS)
def test_a_mask_is_read_as_it_is_written(mask):
    assert parse_mask(str(mask)) == mask


@pytest.mark.parametrize(
    "text, mask",
    [
        ("full", FULL),
        ("causal", CAUSAL),
        ("window:4096", Mask(True, 4096)),
        ("documents:5+7+1", Mask(True, 0, (5, 7, 1))),
        ("causal,documents:5", Mask(True, 0, (5,))),
        ("full,documents:5+7", Mask(False, 0, (5, 7))),
        ("window:3, documents:5*3+7", Mask(True, 3, (5, 5, 5, 7))),
        ("documents:5+7,window:3", Mask(True, 3, (5, 7))),
    ],
)
def test_masks_as_people_write_them(text, mask):
    assert parse_mask(text) == mask


@pytest.mark.parametrize(
    "mask, shown",
    [
        (Mask(True, 0, (4, 4, 4, 9)), "documents:4*3+9"),
        (Mask(True, 8, tuple(range(1, 5001))), "window:8,documents:(5000 of 1 to 5000 tokens)"),
        (Mask(False, 0, (7,) * 5000), "full,documents:7*5000"),
    ],
)
def test_many_documents_are_printed_in_a_few_words(mask, shown):
    assert mask.short == shown


@pytest.mark.parametrize(
    "text, message",
    [
        ("casual", "no mask 'casual': expected one of full, causal, window:W, documents:L1+L2+...; nearest is causal"),
        ("", "no mask '': expected one of full"),
        ("window", "no mask 'window': expected one of full, causal, window:W"),
        ("documents", "no mask 'documents': expected one of"),
        ("causal:3", "no mask 'causal:3': expected one of"),
        ("full,causal", "mask full,causal says both full and causal: give one or the other"),
        ("documents:3,documents:4", "no mask 'documents:3,documents:4': expected one of"),
        ("window:0", "a window has 1 to 2^48 tokens: got '0' in mask window:0"),
        ("window:-3", "a window has 1 to 2^48 tokens: got '-3'"),
        ("window:", "a window has 1 to 2^48 tokens: got ''"),
        ("window:2.5", "a window has 1 to 2^48 tokens: got '2.5'"),
        ("window:" + "9" * 5000, "a window has 1 to 2^48 tokens: got '999"),
        ("documents:", "a document has 1 to 2^48 tokens: got ''"),
        ("documents:3+0+4", "a document has 1 to 2^48 tokens: got '0' in mask documents:3+0+4"),
        ("documents:3++4", "a document has 1 to 2^48 tokens: got ''"),
        ("documents:3*0", "a document is repeated 1 to 2^20 times: got '0'"),
        ("documents:1*1048576+1", "at most 2^20 documents can be packed, got 1048577"),
        ("documents:1*99999999999", "a document is repeated 1 to 2^20 times: got '99999999999'"),
    ],
)
def test_what_is_no_mask_is_refused_in_one_short_line(text, message):
    with pytest.raises(ScheduleError) as refusal:
        parse_mask(text)

    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"window": 4}, "a window is causal and of 1 to 2^48 tokens, got causal=False, 4"),
        ({"causal": True, "window": -1}, "a window is causal and of 1 to 2^48 tokens, got causal=True, -1"),
        ({"documents": (3, 0)}, "a document has 1 to 2^48 tokens: number 1 of the mask has 0"),
    ],
)
def test_a_record_that_is_no_mask_is_refused(wrong, message):
    with pytest.raises(ScheduleError) as refusal:
        Mask(**wrong)

    assert str(refusal.value) == message


def test_a_plain_mask_reaches_everywhere():
    assert (FULL.reach, CAUSAL.reach) == (ANYWHERE - 1, ANYWHERE - 1)
    assert [m.plain for m in (FULL, CAUSAL, Mask(True, 3), Mask(True, 0, (3,)))] == [True, True, False, False]
