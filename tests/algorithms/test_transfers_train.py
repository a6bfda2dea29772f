"""Bytes of training: what all ranks send, forward and backward, equals the formulas, for every way.

Conventions: as `volumes` has them. Gradients in flight have a dtype of their own: float32 unless said.
"""

from math import isqrt

import pytest

import algorithms
from algorithms import ways
from algorithms.ir import Attention, Mesh
from tests.algorithms.volumes import (
    DV,
    EO,
    HKV,
    LENGTHS,
    B,
    D,
    E,
    H,
    gradients,
    hops,
    keys_and_values,
    problem,
    queries,
    query_gradients,
    query_side,
    sent,
    state,
)

every_length = pytest.mark.parametrize("n, m", LENGTHS)
WAYS = [{"all_gather": way, "reduce_scatter": way} for way in ways.names("all_gather")]
every_way = pytest.mark.parametrize("chosen", WAYS, ids=[way["all_gather"] for way in WAYS])
GRIDS = [(1, 1), (1, 4), (4, 1), (2, 2), (2, 3), (3, 2), (4, 7)]


def trained(name, n, m, changes=None, **axes):
    return algorithms.find(name)["train"](problem(n, m, phase="train", **changes or {}), Mesh(**axes))


@every_length
@every_way
@pytest.mark.parametrize("p", [1, 2, 3, 8])
def test_all_gather_kv_gathers_twice_and_reduces_gradients_once(p, chosen, n, m):
    schedule = trained("all_gather_kv", n, m, cp=p)

    assert sent(schedule, "all_gather", **chosen) == 2 * (p - 1) * keys_and_values(m)
    assert sent(schedule, "reduce_scatter", **chosen) == (p - 1) * gradients(m)
    assert sent(schedule, **chosen) == (p - 1) * (2 * keys_and_values(m) + gradients(m))


@every_length
@every_way
@pytest.mark.parametrize("R, C", GRIDS)
def test_attention2d_gathers_the_query_side_along_rows_and_keys_along_columns_again(R, C, chosen, n, m):
    schedule = trained("attention2d", n, m, row=R, col=C)

    rows = (C - 1) * (queries(n) + state(n) + query_side(n) + query_gradients(n))
    columns = (R - 1) * (2 * keys_and_values(m) + gradients(m))
    assert sent(schedule, over=("col",), **chosen) == rows
    assert sent(schedule, over=("row",), **chosen) == columns


@pytest.mark.parametrize("R, C", GRIDS)
def test_attention2d_brings_gradients_home_the_way_the_keys_went(R, C):
    m = 11 * R * C
    schedule = trained("attention2d", m, m, {"layout": "striped"}, row=R, col=C)
    there = sent(schedule, over=("row", "col"))

    assert sent(schedule, over=("col", "row")) * keys_and_values(1) == there * gradients(1)
    assert (there > 0) == (R > 1 and C > 1)


EXCHANGED = [(1, 1, 1), (3, 1, 1), (1, 4, 2), (2, 2, 1), (3, 4, 2), (2, 6, 3)]  # ring, ulysses, copies of 2 KV heads
every_exchange = pytest.mark.parametrize("way", ways.names("all_to_all"))


def exchanged(n, m, copies):
    """What an all-to-all splits: q, k, v one way and out, without lse, the other; then do, and dq, dk, dv."""
    out = state(n) - n * B * H * EO
    do = n * B * H * DV * E
    return queries(n) + keys_and_values(m, HKV * copies) + out + do + query_gradients(n) + gradients(m, HKV * copies)


@every_length
@every_exchange
@pytest.mark.parametrize("p, copies", [(1, 1), (2, 1), (4, 2), (6, 3), (12, 6)])
def test_ulysses_exchanges_the_gradients_of_all_copies(p, copies, way, n, m):
    schedule = trained("ulysses", n, m, ulysses=p)

    assert sent(schedule, all_to_all=way) == hops(way, p) * exchanged(n, m, copies) // p


@every_length
@every_exchange
@pytest.mark.parametrize("r, u, copies", EXCHANGED)
def test_usp_is_ulysses_over_u_and_a_ring_over_r_backward_too(r, u, copies, way, n, m):
    schedule = trained("usp", n, m, ring=r, ulysses=u)

    ring = 2 * (r - 1) * keys_and_values(m, HKV * copies) + (r * gradients(m, HKV * copies) if r > 1 else 0)
    assert sent(schedule, "all_to_all", all_to_all=way) == hops(way, u) * exchanged(n, m, copies) // u
    assert sent(schedule, "permute") == ring


RINGS = [(1, 1), (1, 4), (4, 1), (2, 3), (3, 2)]  # outer, inner


def tours(outer, inner):
    """How often blocks, and their gradients, move in the inner rings and in the outer."""
    there = {"inner": outer * (inner - 1), "outer": outer - 1}
    home = {"inner": outer * inner * (inner > 1), "outer": outer * (outer > 1)}
    return there, home


@every_length
@pytest.mark.parametrize("W, w", RINGS)
def test_burst_passes_keys_and_then_the_query_side_through_rings_of_rings(W, w, n, m):
    forward, backward = (
        algorithms.find("burst")["prefill"](problem(n, m), Mesh(outer=W, inner=w)),
        trained("burst", n, m, outer=W, inner=w),
    )
    there, home = tours(W, w)

    for axis in ("inner", "outer"):
        keys = there[axis] * keys_and_values(m)
        assert sent(forward, over=(axis,)) == keys
        queries_pass = there[axis] * query_side(n) + home[axis] * query_gradients(n)
        assert sent(backward, over=(axis,)) == keys + queries_pass


@every_length
@every_exchange
@pytest.mark.parametrize("W, w", RINGS)
@pytest.mark.parametrize("u, copies", [(1, 1), (2, 1), (4, 2)])
def test_loongtrain_exchanges_heads_and_passes_keys_through_rings_of_rings(u, copies, W, w, way, n, m):
    axes = {"outer": W, "inner": w, "head": u}
    forward, both = (
        algorithms.find("loongtrain")["prefill"](problem(n, m), Mesh(**axes)),
        trained("loongtrain", n, m, **axes),
    )
    there, home = tours(W, w)

    whole = queries(n) + keys_and_values(m, HKV * copies) + state(n)
    assert sent(forward, over=("head",), all_to_all=way) == hops(way, u) * whole // u
    assert sent(both, over=("head",), all_to_all=way) == hops(way, u) * exchanged(n, m, copies) // u
    for axis in ("inner", "outer"):
        keys = there[axis] * keys_and_values(m, HKV * copies)
        assert sent(forward, over=(axis,)) == keys
        assert sent(both, over=(axis,)) == 2 * keys + home[axis] * gradients(m, HKV * copies)


def test_burst_sends_three_quarters_of_a_ring_backward_where_heads_are_as_many_and_dtypes_alike():
    # MHA, one dtype: q, do and dq against k, v, dk and dv; lse and delta on top. papers.md: 3 BNd for 4 BNd.
    p, same = 8, {"kv_heads": H, "head_dim_v": D, "grad_dtype": "bfloat16", "query_len": 512, "key_len": 512}
    whole = Attention(**{"heads": H, "head_dim": D, "phase": "train", "state_dtype": "float32"} | same)
    ring = algorithms.find("ring")["train"](whole, Mesh(ring=p))
    burst = algorithms.find("burst")["train"](whole, Mesh(outer=1, inner=p))
    forward = sent(algorithms.find("ring")["prefill"](whole, Mesh(ring=p)))

    rows = (p - 1) * 512 * H * 2 * EO  # lse and delta
    assert sent(ring) - forward == 512 * H * D * E * (2 * (p - 1) + 2 * p)
    assert sent(burst) - forward == 512 * H * D * E * (2 * (p - 1) + p) + rows


TEAMS = [(1, 1), (4, 1), (1, 2), (2, 2), (3, 2), (1, 3), (2, 3)]  # ring, and the size of a team


@every_length
@every_way
@pytest.mark.parametrize("A, Cs", TEAMS)
def test_startrail_gathers_in_teams_and_groups_and_passes_the_rest_along_a_ring(A, Cs, chosen, n, m):
    axes = {"ring": A, "group": Cs, "team": Cs}
    forward, both = (
        algorithms.find("startrail")["prefill"](problem(n, m), Mesh(**axes)),
        trained("startrail", n, m, **axes),
    )

    keys, rows = keys_and_values(m), (Cs - 1) * (queries(n) + state(n))
    assert sent(forward, over=("ring",)) == Cs * (A - 1) * keys
    assert sent(forward, over=("group",), **chosen) == (Cs - 1) * keys
    assert sent(forward, over=("team",), **chosen) == rows
    around = Cs * ((A - 1) * (keys + query_side(n)) + A * (A > 1) * query_gradients(n))
    assert sent(both, over=("ring",)) == around
    assert sent(both, over=("group",), **chosen) == (Cs - 1) * (2 * keys + gradients(m))
    assert sent(both, over=("team",), **chosen) == rows + (Cs - 1) * (query_side(n) + query_gradients(n))


@pytest.mark.parametrize("A, Cs", TEAMS)
def test_startrail_sends_keys_to_the_transposed_place_and_their_gradients_back(A, Cs):
    m = 11 * 2 * A * Cs * Cs
    schedule = trained("startrail", m, m, ring=A, group=Cs, team=Cs)

    moved = A * (Cs * Cs - Cs) * 22  # all shards but those where group = team
    assert sent(schedule, over=("group", "team")) == keys_and_values(moved) + gradients(moved)


def test_each_rank_of_startrail_passes_on_what_the_paper_says():
    # papers.md section 1: 2 B N dkv e (P - Cs^2) / (Cs P) along the ring, 4 B N d e (Cs - 1) / P in its team (MHA)
    A, Cs, n = 4, 2, 1024
    p = A * Cs * Cs
    even = Attention(16, 16, 64, n, n, batch=2, state_dtype="bfloat16")
    schedule = algorithms.find("startrail")["prefill"](even, Mesh(ring=A, group=Cs, team=Cs))

    lse = (Cs - 1) * 2 * n * 16 * 2
    assert sent(schedule, over=("ring",)) == 2 * 2 * n * (16 * 64) * 2 * (p - Cs * Cs) // Cs
    assert (
        sent(schedule, over=("group",)) + sent(schedule, over=("team",)) == 4 * 2 * n * (16 * 64) * 2 * (Cs - 1) + lse
    )


@every_length
@every_way
@pytest.mark.parametrize("p", [1, 2, 3, 8])
def test_gathering_head_by_head_sends_what_gathering_at_once_does(p, chosen, n, m):
    for phase in ("prefill", "train"):
        at_once, by_head = (
            algorithms.find(name)[phase](problem(n, m, phase=phase), Mesh(cp=p))
            for name in ("all_gather_kv", "all_gather_kv_heads")
        )
        for kind in ("all_gather", "reduce_scatter"):
            assert sent(by_head, kind, **chosen) == sent(at_once, kind, **chosen)
        assert len([op for op in by_head.ops if op.kind == "all_gather"]) == HKV * (1 + (phase == "train"))


TILES = [("mesh_attention", "q", "kv"), ("attention2d_overlapped", "col", "row")]
every_tile = pytest.mark.parametrize("name, across, along", TILES, ids=[name for name, *_ in TILES])


@every_length
@every_tile
@pytest.mark.parametrize("a, b", [(1, 1), (1, 4), (4, 1), (2, 2), (2, 3), (3, 2), (4, 5)])
def test_a_tile_passes_queries_and_results_one_way_and_keys_the_other(name, across, along, a, b, n, m):
    axes = {across: a, along: b}
    forward, both = algorithms.find(name)["prefill"](problem(n, m), Mesh(**axes)), trained(name, n, m, **axes)

    rows, keys = (a - 1) * (queries(n) + state(n)), (b - 1) * keys_and_values(m)
    assert sent(forward, over=(across,)) == rows
    assert sent(forward, over=(along,)) == keys
    assert sent(both, over=(across,)) == rows + (a - 1) * (query_side(n) + query_gradients(n))
    assert sent(both, over=(along,)) == 2 * keys + b * (b > 1) * gradients(m)


@pytest.mark.parametrize("R, C", GRIDS)
def test_attention2d_overlapped_sends_what_attention2d_sends(R, C):
    # Backward its dk and dv make one hop more, the last one home, where a reduce-scatter makes R - 1.
    m = 11 * R * C
    plain, overlapped = (
        {
            phase: algorithms.find(name)[phase](problem(m, m, phase=phase), Mesh(row=R, col=C))
            for phase in ("prefill", "train")
        }
        for name in ("attention2d", "attention2d_overlapped")
    )

    assert sent(overlapped["prefill"]) == sent(plain["prefill"])
    assert sent(overlapped["train"]) == sent(plain["train"]) + (R > 1) * gradients(m)


# papers.md section 1, MHA, one dtype, in units of B N d e: ring forward and backward, ATTENTION2D the same
PUBLISHED = {
    4: (1.500, 3.500, 1.500, 2.250),
    9: (1.778, 3.778, 1.111, 1.778),
    16: (1.875, 3.875, 0.875, 1.438),
    36: (1.944, 3.944, 0.611, 1.028),
    64: (1.969, 3.969, 0.469, 0.797),
    256: (1.992, 3.992, 0.242, 0.418),
}


@pytest.mark.parametrize("p", PUBLISHED)
def test_the_volumes_of_ring_and_attention2d_are_those_of_the_literature(p):
    # There lse and delta are not counted, and every rank is taken to send its keys to another.
    side, n, heads, d = isqrt(p), p * 4, 2, 64
    alike = {"state_dtype": "bfloat16", "grad_dtype": "bfloat16", "layout": "striped"}
    unit, rows = n * heads * d * E, n * heads * E
    found = {}
    for name, axes in (("ring", {"ring": p}), ("attention2d", {"row": side, "col": side})):
        for phase in ("prefill", "train"):
            layer = Attention(heads, heads, d, n, n, phase=phase, **alike)
            found[name, phase] = sent(algorithms.find(name)[phase](layer, Mesh(**axes)))

    forward, both = found["attention2d", "prefill"], found["attention2d", "train"]
    kept = 2 * unit * side // p  # keys and values of ranks on the diagonal
    volumes = (
        found["ring", "prefill"],
        found["ring", "train"] - found["ring", "prefill"],
        forward - (side - 1) * rows + kept,
        both - forward - (side - 1) * 2 * rows + kept,
    )
    # volumes are of all ranks, the table is of one
    assert [v / unit / p for v in volumes] == pytest.approx(PUBLISHED[p], abs=6e-4)
