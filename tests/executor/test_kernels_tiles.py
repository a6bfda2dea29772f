"""A tile is judged from its positions alone: skipped when the mask hides all of it, unmasked when it hides none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ir.mask import CAUSAL, FULL, Mask
from executor.kernels import backward, find, forward
from executor.kernels.dense import sees
from executor.kernels.tiles import View, cut, cut_rows, view, visible
from tests.executor.attention_cases import case, positions, set_tiles

some_positions = st.lists(st.integers(0, 60), min_size=1, max_size=12).map(np.array)


@given(rows=some_positions, cols=some_positions, mask=st.sampled_from([FULL, CAUSAL]))
def test_the_judgement_agrees_with_the_mask_pair_by_pair(rows, cols, mask):
    (queries,), (keys,) = cut_rows(mask.interval(rows), 1000), cut(cols, 1000)
    pairs = sees(rows, cols, mask)
    expected = View.FULL if pairs.all() else View.MIXED if pairs.any() else View.EMPTY
    assert view(queries, keys) is expected


CUT = [Mask(True, 7), Mask(True, 0, (20, 1, 40)), Mask(False, 0, (20, 1, 40)), Mask(True, 7, (20, 1, 40))]


@given(rows=some_positions, cols=some_positions, mask=st.sampled_from(CUT))
def test_a_window_or_a_document_is_never_judged_full_or_empty_when_it_is_not(rows, cols, mask):
    (queries,), (keys,) = cut_rows(mask.interval(rows), 1000), cut(cols, 1000)
    judged, pairs = view(queries, keys), sees(rows, cols, mask)
    assert (judged is View.FULL) == pairs.all()
    assert judged is not View.EMPTY or not pairs.any()


@given(st.integers(0, 50), st.integers(1, 10), some_positions, st.sampled_from(CUT))
def test_queries_in_a_row_have_no_tile_that_none_of_them_sees(start, count, cols, mask):
    rows, keys = start + np.arange(count), np.sort(cols)
    pairs = sees(rows, keys, mask)
    for row in cut_rows(mask.interval(rows), 1000):
        for key in cut(keys[:1], 1):  # a single key lies in the view of a run of queries, or is seen by none
            assert (view(row, key) is View.EMPTY) == (not pairs[row.slice, :1].any())


@given(found=some_positions, size=st.integers(1, 14))
def test_spans_cover_every_token_once_in_order(found, size):
    spans = cut(found, size)
    assert np.concatenate([np.arange(s.start, s.stop) for s in spans]).tolist() == list(range(found.size))
    assert all(0 < s.stop - s.start <= size for s in spans)
    assert all((s.low, s.high) == (found[s.slice].min(), found[s.slice].max()) for s in spans)


def test_no_tokens_make_no_spans():
    assert cut(np.arange(0), 16) == []


def test_spans_are_even():
    assert [s.stop - s.start for s in cut(np.arange(33), 16)] == [11, 11, 11]


def test_a_span_never_reaches_over_the_jump_of_a_zigzag_shard():
    found = np.concatenate([np.arange(20, 40), np.arange(120, 140)])
    assert [(s.low, s.high) for s in cut(found, 16)] == [(20, 29), (30, 39), (120, 129), (130, 139)]


def test_striped_and_shuffled_shards_are_cut_by_size_alone():
    rng = np.random.default_rng(0)
    for order in ("striped", "shuffled"):
        assert [s.stop for s in cut(positions(order, 64, rng), 16)] == [16, 32, 48, 64]


@pytest.fixture(params=["numpy", "numba"])
def visits(request, monkeypatch):
    """Run a case forward and backward; return how many tiles each visits, and how many of them are mixed."""
    set_tiles(monkeypatch, side=16, longest=16)
    seen = {forward: [], backward: []}
    for module, tiles in seen.items():

        def counted(*args, tiles=tiles, original=module.key_tiles):
            for tile in original(*args):
                tiles.append(tile.mixed)
                yield tile

        monkeypatch.setattr(module, "key_tiles", counted)

    def count(c):
        kernel = find(request.param)
        out, lse = kernel.attend(*c.block)
        kernel.attend_backward(*c.block[:3], c.do, lse, (c.do * out).sum(axis=2), *c.block[3:])
        assert sorted(seen[forward]) == sorted(seen[backward])
        return len(seen[forward]), sum(seen[forward])

    return count


def block_of(rows, cols, mask):
    c = case(n=len(rows), m=len(cols), heads=(1, 1), mask=mask)
    return c._replace(rows=np.asarray(rows), cols=np.asarray(cols))


def test_a_full_mask_visits_every_tile_and_compares_no_position(visits):
    assert visits(block_of(range(128), range(128), "full")) == (64, 0)


def test_a_causal_mask_visits_the_lower_triangle_of_tiles(visits):
    #      keys 0 1 2 3 ...
    # query 0   /                8 tiles on the diagonal, mixed
    # query 1   # /              8 * 7 / 2 below it, full
    # query 2   # # /            the rest is skipped
    assert visits(block_of(range(128), range(128), "causal")) == (8 + 28, 8)


def test_a_window_visits_a_band_of_tiles(visits):
    #      keys 0 1 2 3 ...         W = 33: a query sees its tile, the two before it, and no more
    # query 0   /
    # query 1   # /               the diagonal: mixed
    # query 2   / # /             one before: full; two before: mixed
    assert visits(block_of(range(128), range(128), "window:33")) == (8 + 7 + 6, 8 + 6)


@pytest.mark.parametrize(
    "mask, tiles, mixed",
    [
        ("documents:64+32*2", 10 + 3 + 3, 4 + 2 + 2),  # a triangle each
        ("full,documents:64+32*2", 16 + 4 + 4, 0),  # a square each
    ],
)
def test_packed_documents_visit_the_tiles_of_each_alone(visits, mask, tiles, mixed):
    assert visits(block_of(range(128), range(128), mask)) == (tiles, mixed)


def test_queries_are_cut_where_a_long_document_ends(monkeypatch):
    set_tiles(monkeypatch, side=16, longest=16)
    mask = Mask(False, 0, (8, 40, 80))

    rows, _ = forward.spans(mask.interval(np.arange(128)), np.arange(128), mask, group=1)

    assert {0, 8, 48} < {span.first.start for span in rows}


def test_earlier_keys_are_all_seen_and_later_ones_cost_nothing(visits):
    assert visits(block_of(range(64, 128), range(64), "causal")) == (16, 0)


def test_later_keys_cost_nothing(visits):
    assert visits(block_of(range(64), range(64, 128), "causal")) == (0, 0)


def test_a_zigzag_step_of_the_ring_costs_half(visits):
    #            keys: chunk 1 (early), chunk 6 (late)
    # chunk 0:               -              -             two tiles a chunk and side
    # chunk 7:               #              #             2 * (2 + 2) full tiles of 16
    early, late = range(32), range(7 * 32, 8 * 32)
    keys = [*range(32, 64), *range(6 * 32, 7 * 32)]
    assert visits(block_of([*early, *late], keys, "causal")) == (8, 0)


def test_a_striped_step_visits_the_triangle(visits):
    # queries 1, 5, 9, ... against keys 0, 4, 8, ...: the diagonal tiles are mixed, as in one contiguous block
    assert visits(block_of(range(1, 256, 4), range(0, 256, 4), "causal")) == (4 + 6, 4)


def test_the_heads_of_a_group_share_their_tiles(visits):
    # 4 heads x 4 tokens fill a tile of 16 rows: 32 tokens make 8 spans, 2 key spans of 16 each
    c = case(n=32, m=32, heads=(4, 1), mask="full")
    assert visits(c) == (8 * 2, 0)


def test_few_queries_take_long_tiles(monkeypatch):
    set_tiles(monkeypatch, side=16, longest=100)

    def lengths(queries):
        _, keys = forward.spans(FULL.interval(np.arange(queries)), np.arange(200), FULL, group=1)
        return [span.stop - span.start for span in keys]

    assert lengths(1) == [100, 100]  # as many scores as 16 x 16 would be 256 keys: LONGEST rules
    assert lengths(4) == [50] * 4  # 4 x 64 scores at most, in even spans
    assert max(lengths(16)) <= 16


def test_visible_says_where_positions_must_be_compared():
    queries = cut_rows(CAUSAL.interval(np.arange(16, 32)), 16)[0]
    keys = cut(np.arange(48), 16)
    assert list(visible(queries, keys)) == [(keys[0], False), (keys[1], True)]
