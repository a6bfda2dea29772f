"""Layouts deal every position to one shard, for any length and any number of shards; nothing is padded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ir import Attention, ScheduleError
from algorithms.ir.layout import LAYOUTS, layout
from algorithms.ir.mask import Mask
from algorithms.ir.pieces import Piece

LENGTHS = st.integers(1, 70)  # with up to 24 shards: some of them empty
SHARDS = st.integers(1, 24)
KINDS = st.sampled_from([*LAYOUTS, "pages:1", "pages:3", "pages:16"])


def shard(dealt, i):
    return dealt.runs(np.asarray(i)).positions()


@given(KINDS, LENGTHS, SHARDS, st.integers(0, 1000))
def test_shards_partition_the_positions(kind, n, p, origin):
    shards = [shard(layout(kind, n, p, origin), i) for i in range(p)]

    assert sorted(np.concatenate(shards)) == list(range(origin, origin + n))


@given(KINDS, LENGTHS, SHARDS)
def test_shard_sizes_differ_by_at_most_one_token_a_run(kind, n, p):
    sizes = [len(shard(layout(kind, n, p), i)) for i in range(p)]

    assert max(sizes) - min(sizes) <= ({"zigzag": 2}.get(kind) or layout(kind, n, p).page or 1)
    assert layout(kind, n, p).count(np.arange(p)).tolist() == sizes
    if layout(kind, n, p).even:
        assert set(sizes) == {n // p}


@given(LENGTHS, SHARDS)
def test_contiguous_shards_stand_in_order(n, p):
    np.testing.assert_array_equal(
        np.concatenate([shard(layout("contiguous", n, p), i) for i in range(p)]), np.arange(n)
    )


@given(LENGTHS, SHARDS)
def test_striped_shard_i_holds_the_positions_congruent_to_i(n, p):
    for i in range(p):
        np.testing.assert_array_equal(shard(layout("striped", n, p), i), np.arange(i, n, p))


@given(LENGTHS, SHARDS, st.integers(1, 80), st.integers(0, 9))
def test_pages_go_to_the_shards_in_turn(n, p, page, origin):
    for i in range(p):
        held = [x for x in range(n) if x // page % p == i]
        assert sorted(shard(layout(f"pages:{page}", n, p, origin), i)) == [origin + x for x in held]


@given(LENGTHS, SHARDS)
def test_pages_of_one_are_stripes(n, p):
    for i in range(p):
        np.testing.assert_array_equal(shard(layout("pages:1", n, p), i), shard(layout("striped", n, p), i))


@pytest.mark.parametrize("page", [1, 16, 1 << 12, 1 << 30])
def test_however_long_the_cache_its_pages_are_few_runs(page):
    runs = layout(f"pages:{page}", 1 << 24, 8).runs(np.arange(8))

    assert runs.start.shape[-1] <= (1 << 12)


@pytest.mark.parametrize(
    "text", ["pages:", "pages:0", "pages:-1", "pages:1.5", "pages:16x", f"pages:{2**49}", "pages:²"]
)
def test_a_page_has_a_token_at_least(text):
    with pytest.raises(ScheduleError, match=rf"^layout {text} must have from 1 to 2\^48 tokens a page, as pages:16"):
        Attention(1, 1, 8, 10, 10, layout=text)


@given(st.integers(1, 8), SHARDS)
def test_zigzag_shard_i_holds_the_ith_chunk_and_the_ith_from_the_end(chunk, p):
    chunks = np.arange(2 * p * chunk).reshape(2 * p, chunk)

    for i in range(p):
        dealt = shard(layout("zigzag", 2 * p * chunk, p), i)
        np.testing.assert_array_equal(dealt, [*chunks[i], *chunks[2 * p - 1 - i]])


@pytest.mark.parametrize("kind", ["zigzag", "striped"])
def test_a_balanced_layout_gives_every_rank_the_same_causal_work(kind):
    # A query at position t sees t + 1 keys. Contiguous: the last rank has nearly twice the mean.
    n, p = 1024, 8
    work = [(shard(layout(kind, n, p), i) + 1).sum() for i in range(p)]
    contiguous = [(shard(layout("contiguous", n, p), i) + 1).sum() for i in range(p)]
    mean = n * (n + 1) / 2 / p

    assert max(work) <= mean * (1 + p / n)
    assert max(contiguous) == pytest.approx(mean * (2 - 1 / p), rel=1e-2)


def test_the_queries_are_the_last_of_the_positions():
    problem = Attention(1, 1, 8, query_len=10, key_len=100)

    assert shard(problem.queries(2), 0).tolist() == [90, 91, 92, 93, 94]
    assert shard(problem.keys(2), 1).tolist() == list(range(50, 100))


# -- packed documents ----------------------------------------------------------------------------------------

PIECES = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5)), min_size=1, max_size=9).map(
    lambda drawn: [Piece(sum(n + gap for n, gap in drawn[:k]) + gap, n) for k, (n, gap) in enumerate(drawn)]
)


def dealt_pieces(pieces, p):
    dealt = layout("documents", sum(n for _, n in pieces), p, pieces=pieces)
    return dealt, [shard(dealt, i) for i in range(p)]


@given(PIECES, SHARDS)
def test_documents_are_dealt_whole_and_in_order(pieces, p):
    dealt, shards = dealt_pieces(pieces, p)

    assert sorted(np.concatenate(shards)) == [x for start, n in pieces for x in range(start, start + n)]
    assert all((np.diff(x) > 0).all() for x in shards)
    assert [len(x) for x in shards] == [int(dealt.count(np.asarray(i))) for i in range(p)]
    assert dealt.even == (len({len(x) for x in shards}) == 1)


@given(PIECES, SHARDS)
def test_shards_have_the_same_of_every_document_and_of_all_but_for_one_token(pieces, p):
    _, shards = dealt_pieces(pieces, p)

    for start, n in [*pieces, (0, 10**6)]:
        sizes = [((start <= x) & (x < start + n)).sum() for x in shards]
        assert max(sizes) - min(sizes) <= 1


@given(PIECES, st.integers(2, 12))
def test_a_shard_has_a_run_from_the_front_and_one_as_far_from_the_back(pieces, p):
    _, shards = dealt_pieces(pieces, p)

    for start, n in pieces:
        if n % (2 * p) == 0:
            for x in shards:
                mine = x[(start <= x) & (x < start + n)] - start
                np.testing.assert_array_equal(mine, n - 1 - mine[::-1])


def causal_work(lengths, kind, p):
    """Pairs that each shard's queries see, as a share of the mean."""
    starts = np.cumsum(lengths) - lengths
    pieces = [Piece(int(s), int(n)) for s, n in zip(starts, lengths, strict=True)]
    dealt = layout(kind, int(lengths.sum()), p, pieces=pieces)
    shards = [shard(dealt, i) for i in range(p)]
    work = np.array([(x - starts[np.searchsorted(starts, x, side="right") - 1] + 1).sum() for x in shards])
    return work / work.mean()


MANY = np.random.default_rng(0).integers(1, 2000, 300)
SHORT = np.random.default_rng(1).integers(1, 64, 1000)


@pytest.mark.parametrize("lengths", [MANY, SHORT, np.full(64, 8), np.full(64, 100), np.array([9000])], ids=len)
def test_packed_documents_are_balanced_whatever_their_lengths(lengths):
    assert causal_work(lengths, "documents", 8).max() < 1.01


def test_a_layout_of_the_whole_sequence_does_not_balance_its_documents():
    assert causal_work(MANY, "contiguous", 8).max() > 1.05
    assert causal_work(MANY, "zigzag", 8).max() > 1.02


def test_the_new_tokens_of_documents_in_decode_are_the_last_of_each():
    problem = Attention(1, 1, 8, 4, 12, mask="documents:5+7", phase="decode")

    assert problem.query_runs.positions().tolist() == [3, 4, 10, 11]
    assert shard(problem.queries(1), 0).tolist() == [3, 4, 10, 11]
    assert problem.query_rows(np.array([3, 4, 10, 11, 2, 5, 9])).tolist() == [0, 1, 2, 3, -1, -1, -1]
    assert sorted(np.concatenate([shard(problem.queries(3), i) for i in range(3)])) == [3, 4, 10, 11]


def test_the_queries_after_cached_tokens_are_what_is_left_of_the_documents():
    problem = Attention(1, 1, 8, 6, 12, mask=Mask(True, 0, (3, 5, 4)), layout="documents")

    assert problem.query_pieces == (Piece(6, 2), Piece(8, 4))
    assert sorted(np.concatenate([shard(problem.queries(4), i) for i in range(4)])) == list(range(6, 12))


def test_an_unknown_layout_names_those_there_are():
    with pytest.raises(
        ScheduleError,
        match=r"no layout 'zigzga': .* striped, documents, or pages:N; nearest is zigzag",
    ):
        layout("zigzga", 10, 2)


def test_a_layout_is_indexed_not_iterated():
    with pytest.raises(TypeError):
        list(layout("zigzag", 10, 2))
