"""Visible pairs: the closed forms count what enumeration counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ir import Mesh, ScheduleError
from algorithms.ir.layout import LAYOUTS, layout
from algorithms.ir.mask import check_mask, coalesced, count_pairs, floor_sum, sees
from algorithms.ir.schedule import per_rank
from algorithms.ir.tokens import Runs, gather

KINDS = st.sampled_from(LAYOUTS)
MASKS = st.sampled_from(["full", "causal"])
SIZES = st.integers(1, 5)
RUNS = st.builds(
    lambda pairs, step: Runs(np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs]), step),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), min_size=1, max_size=4),
    st.integers(1, 7),
)


def visible(mask, rows, cols):
    return int(np.broadcast_to(sees(mask, rows[:, None], cols[None, :]), (len(rows), len(cols))).sum())


def counted(mask, rows, cols):
    pairs = count_pairs(mask, rows, cols)
    return int(pairs.visible), int(pairs.mixed)


def run_positions(runs):
    return [s + runs.step * np.arange(c) for s, c in zip(runs.start, runs.count, strict=True)]


@given(MASKS, RUNS, RUNS)
def test_pairs_are_counted_as_enumeration_counts_them(mask, rows, cols):
    assert counted(mask, rows, cols)[0] == visible(mask, rows.positions(), cols.positions())


@given(RUNS, RUNS)
def test_mixed_says_whether_the_masks_edge_cuts_some_run_of_the_tile(rows, cols):
    tiles = [
        sees("causal", r[:, None], c[None, :])
        for r in run_positions(coalesced(rows))
        for c in run_positions(coalesced(cols))
    ]

    assert counted("causal", rows, cols)[1] == any(t.any() and not t.all() for t in tiles)
    assert counted("full", rows, cols)[1] == 0


@given(MASKS, KINDS, st.integers(1, 60), st.integers(0, 30), SIZES, st.integers(0, 5))
def test_each_step_of_a_ring_on_every_rank(mask, kind, n, cached, p, hops):
    mesh = Mesh(ring=p)
    i = mesh.coord("ring")
    rows = layout(kind, n, p, cached)[i]
    cols = layout(kind, n + cached, p)[i].replace(mesh.behind(("ring",), hops))

    pairs = count_pairs(mask, rows.runs(mesh.grid()), cols.runs(mesh.grid()))

    expected = [
        visible(mask, rows.runs(mesh.of_rank(r)).positions(), cols.runs(mesh.of_rank(r)).positions()) for r in range(p)
    ]
    assert np.broadcast_to(pairs.visible, mesh.shape).tolist() == expected


@given(MASKS, KINDS, st.integers(1, 60), st.integers(0, 30), SIZES, SIZES)
def test_each_tile_of_a_grid_with_gathered_queries_and_keys(mask, kind, n, cached, R, C):
    mesh = Mesh(row=R, col=C)
    place = mesh.coord("col") * R + mesh.coord("row")
    rows = gather(layout(kind, n, R * C, cached)[place], {"col": C})
    cols = gather(layout(kind, n + cached, R * C)[place], {"row": R})

    pairs = count_pairs(mask, rows.runs(mesh.grid()), cols.runs(mesh.grid()))

    expected = [
        visible(mask, rows.runs(at).positions(), cols.runs(at).positions())
        for at in (mesh.of_rank(rank) for rank in range(mesh.size))
    ]
    assert np.broadcast_to(pairs.visible, mesh.shape).ravel().tolist() == expected


@given(KINDS, st.integers(1, 80), SIZES)
def test_all_tiles_of_a_causal_ring_make_a_triangle(kind, n, p):
    mesh = Mesh(ring=p)
    tokens = layout(kind, n, p)[mesh.coord("ring")]
    total = 0
    for hops in range(p):
        cols = tokens.replace(mesh.behind(("ring",), hops))
        total += count_pairs("causal", tokens.runs(mesh.grid()), cols.runs(mesh.grid())).visible.sum()

    assert total == n * (n + 1) // 2


@given(RUNS)
def test_coalescing_keeps_the_set_of_positions(runs):
    assert sorted(coalesced(runs).positions()) == sorted(runs.positions())


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 64])
@pytest.mark.parametrize("kind", ["contiguous", "striped"])
def test_gathered_shards_become_one_run(kind, n):
    mesh = Mesh(ring=4)
    everything = gather(layout(kind, n, 4)[mesh.coord("ring")], {"ring": 4}).runs(mesh.grid())

    whole = coalesced(everything)

    assert whole.start.shape[-1] == 1
    assert whole.step == 1
    assert whole.positions().tolist() == list(range(n))


def test_gathered_zigzag_shards_become_one_run():
    mesh = Mesh(ring=4)
    whole = coalesced(gather(layout("zigzag", 64, 4)[mesh.coord("ring")], {"ring": 4}).runs(mesh.grid()))

    assert (whole.start.tolist(), whole.count.tolist()) == ([0], [64])


@given(st.integers(0, 30), st.integers(0, 50), st.integers(0, 50), st.integers(1, 20))
def test_floor_sum(n, a, b, m):
    assert floor_sum(np.array(n), a, np.array(b), m) == sum((a * i + b) // m for i in range(n))


def test_a_striped_grid_gives_every_rank_an_equal_share():
    # papers.md 2.4: each tile of the transposed square grid is a triangle of side N/s; the strict ones lack the
    # diagonal, so the counts differ by N/s pairs.
    s, n = 4, 256
    mesh = Mesh(row=s, col=s)
    r, c = mesh.coord("row"), mesh.coord("col")
    rows = gather(layout("striped", n, s * s)[c * s + r], {"col": s})
    cols = gather(layout("striped", n, s * s)[r * s + c], {"row": s})
    side = n // s

    pairs = count_pairs("causal", rows.runs(mesh.grid()), cols.runs(mesh.grid())).visible

    strict = np.subtract(*np.indices(mesh.shape)) < 0  # column beyond row
    np.testing.assert_array_equal(pairs, np.where(strict, side * (side - 1) // 2, side * (side + 1) // 2))
    assert per_rank(rows.count, mesh).tolist() == [side] * mesh.size


def test_a_long_sequence_is_counted_exactly():
    n = 1 << 20
    whole = Runs(np.array([0]), np.array([n]), 1)
    odd = Runs(np.array([1]), np.array([n // 3]), 3)

    assert count_pairs("causal", whole, whole).visible == n * (n + 1) // 2
    # keys 1, 4, 7, ...: key 3j + 1 is seen by the queries from there on
    assert count_pairs("causal", whole, odd).visible == sum(n - (3 * j + 1) for j in range(n // 3))


def test_an_unknown_mask_names_those_there_are():
    with pytest.raises(ScheduleError, match="no mask 'casual': expected one of full, causal"):
        check_mask("casual")
