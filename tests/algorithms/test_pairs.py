"""Visible pairs: the closed forms count what enumeration counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import algorithms.ir.pairs as pairs_module
from algorithms.ir import Attention, Mesh
from algorithms.ir.layout import KINDS, LAYOUTS, layout
from algorithms.ir.mask import CAUSAL, FULL, Mask, sees
from algorithms.ir.pairs import coalesced, count_pairs, floor_sum
from algorithms.ir.schedule import per_rank
from algorithms.ir.tokens import Runs, gather

DEALT = st.sampled_from(LAYOUTS)
MASKS = st.one_of(st.sampled_from([FULL, CAUSAL]), st.integers(1, 70).map(lambda w: Mask(True, w)))
ENDS = st.lists(st.integers(1, 95), max_size=7).map(lambda ends: (*sorted(set(ends)), 96))  # of packed documents
PACKED = st.builds(lambda mask, ends: Mask(mask.causal, mask.window, tuple(np.diff([0, *ends]).tolist())), MASKS, ENDS)
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


@given(st.one_of(MASKS, PACKED), RUNS, RUNS)
def test_pairs_are_counted_as_enumeration_counts_them(mask, rows, cols):
    assert counted(mask, rows, cols)[0] == visible(mask, rows.positions(), cols.positions())


@given(st.one_of(MASKS, PACKED), RUNS, RUNS)
def test_mixed_says_whether_the_masks_edge_cuts_some_run_of_the_tile(mask, rows, cols):
    tiles = [
        sees(mask, r[:, None], c[None, :])
        for r in run_positions(coalesced(rows))
        for c in run_positions(coalesced(cols))
    ]

    assert counted(mask, rows, cols)[1] == any(t.any() and not t.all() for t in tiles)


@given(MASKS, DEALT, st.integers(1, 60), st.integers(0, 30), SIZES, st.integers(0, 5))
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


@given(MASKS, DEALT, st.integers(1, 60), st.integers(0, 30), SIZES, SIZES)
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


@st.composite
def packed(draw):
    """A problem of packed documents, in any layout, and a number of shards."""
    lengths = tuple(draw(st.lists(st.integers(1, 30), min_size=1, max_size=6)))
    mask = draw(MASKS)
    kind, n = draw(st.sampled_from(KINDS)), sum(lengths)
    new = draw(st.integers(1, n))
    return Attention(1, 1, 8, new, n, mask=Mask(mask.causal, mask.window, lengths), layout=kind), draw(SIZES)


@given(packed(), st.integers(0, 5))
def test_each_step_of_a_ring_of_packed_documents(drawn, hops):
    problem, p = drawn
    mesh = Mesh(ring=p)
    i = mesh.coord("ring")
    rows, cols = problem.queries(p)[i], problem.keys(p)[i].replace(mesh.behind(("ring",), hops))

    pairs = count_pairs(problem.mask, rows.runs(mesh.grid()), cols.runs(mesh.grid()))

    expected = [
        visible(problem.mask, rows.runs(mesh.of_rank(r)).positions(), cols.runs(mesh.of_rank(r)).positions())
        for r in range(p)
    ]
    assert np.broadcast_to(pairs.visible, mesh.shape).tolist() == expected


@given(packed(), SIZES)
def test_each_tile_of_a_grid_of_packed_documents(drawn, C):
    problem, R = drawn
    mesh = Mesh(row=R, col=C)
    place = mesh.coord("col") * R + mesh.coord("row")
    rows, cols = gather(problem.queries(R * C)[place], {"col": C}), gather(problem.keys(R * C)[place], {"row": R})

    pairs = count_pairs(problem.mask, rows.runs(mesh.grid()), cols.runs(mesh.grid()))

    expected = [
        visible(problem.mask, rows.runs(at).positions(), cols.runs(at).positions())
        for at in (mesh.of_rank(rank) for rank in range(mesh.size))
    ]
    assert np.broadcast_to(pairs.visible, mesh.shape).ravel().tolist() == expected


@given(packed())
def test_documents_are_counted_alike_however_few_runs_are_looked_at_at_once(drawn):
    problem, p = drawn
    mesh = Mesh(ring=p)
    i = mesh.coord("ring")
    rows, cols = problem.queries(p)[i].runs(mesh.grid()), problem.keys(p)[i].runs(mesh.grid())
    whole = count_pairs(problem.mask, rows, cols)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs_module, "_RUNS", 3)
        patch.setattr(pairs_module, "_CHUNK", 5)
        again = count_pairs(problem.mask, rows, cols)

    for x, y in zip(whole, again, strict=True):
        np.testing.assert_array_equal(x, y)


def test_documents_of_a_ring_add_up_to_their_triangles():
    lengths = tuple(np.random.default_rng(0).integers(1, 3000, 2000).tolist())
    problem = Attention(1, 1, 8, sum(lengths), sum(lengths), mask=Mask(True, 0, lengths), layout="documents")
    mesh, total = Mesh(ring=4), 0
    tokens = problem.keys(4)[mesh.coord("ring")]
    for hops in range(4):
        cols = tokens.replace(mesh.behind(("ring",), hops))
        total += count_pairs(problem.mask, tokens.runs(mesh.grid()), cols.runs(mesh.grid())).visible.sum()

    assert total == sum(n * (n + 1) // 2 for n in lengths)


@given(DEALT, st.integers(1, 80), SIZES)
def test_all_tiles_of_a_causal_ring_make_a_triangle(kind, n, p):
    mesh = Mesh(ring=p)
    tokens = layout(kind, n, p)[mesh.coord("ring")]
    total = 0
    for hops in range(p):
        cols = tokens.replace(mesh.behind(("ring",), hops))
        total += count_pairs(CAUSAL, tokens.runs(mesh.grid()), cols.runs(mesh.grid())).visible.sum()

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

    pairs = count_pairs(CAUSAL, rows.runs(mesh.grid()), cols.runs(mesh.grid())).visible

    strict = np.subtract(*np.indices(mesh.shape)) < 0  # column beyond row
    np.testing.assert_array_equal(pairs, np.where(strict, side * (side - 1) // 2, side * (side + 1) // 2))
    assert per_rank(rows.count, mesh).tolist() == [side] * mesh.size


def test_a_long_sequence_is_counted_exactly():
    n = 1 << 20
    whole = Runs(np.array([0]), np.array([n]), 1)
    odd = Runs(np.array([1]), np.array([n // 3]), 3)

    assert count_pairs(CAUSAL, whole, whole).visible == n * (n + 1) // 2
    # keys 1, 4, 7, ...: key 3j + 1 is seen by the queries from there on
    assert count_pairs(CAUSAL, whole, odd).visible == sum(n - (3 * j + 1) for j in range(n // 3))
