"""Useful: what a rank receives and some query there sees, counted as enumeration counts it."""

import numpy as np
import pytest

from algorithms import find
from algorithms.ir import Attention, Mesh
from algorithms.ir.mask import sees
from sim.useful import useful_share


def problem(mask, layout="contiguous", n=40, **changes):
    return Attention(4, 2, 8, n, n, mask=mask, layout=layout, **changes)


def by_hand(mask, kind, p, n=40):
    """Of all blocks of the other ranks, the share of keys that a rank's queries see."""
    dealt = problem(mask, kind, n).keys(p)
    at = [dealt.runs(np.asarray(i)).positions() for i in range(p)]
    whole = problem(mask, kind, n).mask
    seen = sum(sees(whole, at[i][:, None], at[j][None, :]).any(0).sum() for i in range(p) for j in range(p) if i != j)
    return seen / sum(len(x) * (p - 1) for x in at)


@pytest.mark.parametrize("layout", ["contiguous", "zigzag", "striped"])
@pytest.mark.parametrize("algorithm, axis", [("ring", "ring"), ("all_gather_kv", "cp")])
def test_under_a_causal_mask_a_ring_and_a_gather_receive_the_same_and_see_the_same(algorithm, axis, layout):
    schedule = find(algorithm)["prefill"](problem("causal", layout), Mesh(**{axis: 4}))

    assert useful_share(schedule) == by_hand("causal", layout, 4)


def test_zigzag_leaves_a_quarter_of_the_keys_unseen_and_contiguous_half():
    ring = find("ring")["prefill"]

    assert useful_share(ring(problem("causal", "zigzag", 6400), Mesh(ring=64))) == pytest.approx(3 / 4, abs=0.01)
    assert useful_share(ring(problem("causal", "contiguous", 6400), Mesh(ring=64))) == pytest.approx(1 / 2, abs=0.01)


@pytest.mark.parametrize("phase", ["prefill", "train"])
def test_a_trimmed_ring_receives_nothing_that_nobody_sees(phase):
    ring, gather = find("ring")[phase], find("all_gather_kv")[phase]

    assert useful_share(ring(problem("window:12", phase=phase), Mesh(ring=4))) == 1.0
    assert useful_share(gather(problem("window:12", phase=phase), Mesh(cp=4))) == by_hand("window:12", "contiguous", 4)


def test_documents_that_no_query_of_a_rank_is_in_are_of_no_use_to_it():
    packed = problem("full,documents:10*4")

    assert useful_share(find("all_gather_kv")["prefill"](packed, Mesh(cp=4))) == 0.0


def test_of_a_full_mask_all_is_seen_and_of_nothing_nothing_is_said():
    assert useful_share(find("ring")["prefill"](problem("full"), Mesh(ring=4))) == 1.0
    assert useful_share(find("ring")["prefill"](problem("causal"), Mesh(ring=1))) is None
    decode = Attention(4, 2, 8, 1, 40, phase="decode", mask="causal")
    assert useful_share(find("tree")["decode"](decode, Mesh(cp=4))) is None


def test_keys_that_several_queries_meet_are_seen_if_one_of_them_sees_them():
    # a tile of 2 x 2 blocks: the keys that a rank receives meet its own queries and those that come
    schedule = find("mesh_attention")["prefill"](problem("causal", "contiguous"), Mesh(q=2, kv=2))
    dealt = problem("causal").keys(4)
    at = [dealt.runs(np.asarray(i)).positions() for i in range(4)]
    came = [at[n ^ 1] for n in range(4)]  # along kv: from the neighbour
    queries = [np.concatenate([at[n], at[n ^ 2]]) for n in range(4)]  # along q
    seen = [(k[None, :] <= q[:, None]).any(0).mean() for q, k in zip(queries, came, strict=True)]

    assert useful_share(schedule) == np.mean(seen)
