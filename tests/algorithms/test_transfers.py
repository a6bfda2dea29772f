"""Bytes: what all ranks send together equals the formulas of the papers, for every way.

Conventions: as `volumes` has them; what a rank keeps for itself is not sent; KV heads that are copied are counted as
often as they travel. All sums are over ranks, so they hold for uneven shards too. Backward passes that are no ring:
test_transfers_train.
"""

from math import gcd

import numpy as np
import pytest

import algorithms
from algorithms import ways
from algorithms.ir import Attention, Mesh, spmd
from algorithms.ops.broadcast import broadcast
from algorithms.ops.load import load
from algorithms.ways.transfers import sent_bytes, transfers
from tests.algorithms.tracing import PROGRAMS, meshes, small, traced
from tests.algorithms.volumes import (
    EG,
    HKV,
    LENGTHS,
    E,
    hops,
    keys_and_values,
    problem,
    queries,
    sent,
    state,
)

every_length = pytest.mark.parametrize("n, m", LENGTHS)


@every_length
@pytest.mark.parametrize("p", [1, 2, 3, 8])
def test_a_ring_passes_every_key_and_value_p_minus_1_times(p, n, m):
    schedule = algorithms.find("ring")["prefill"](problem(n, m), Mesh(ring=p))

    assert sent(schedule) == (p - 1) * keys_and_values(m)


@every_length
@pytest.mark.parametrize("p", [1, 2, 3, 8])
def test_a_backward_ring_passes_keys_again_and_gradients_home(p, n, m):
    # dK and dV make P hops: P - 1 with the keys, and one home. On one rank nothing moves.
    schedule = algorithms.find("ring")["train"](problem(n, m, phase="train"), Mesh(ring=p))

    forward = backward = (p - 1) * keys_and_values(m)
    assert sent(schedule) == forward + backward + (p * keys_and_values(m, e=EG) if p > 1 else 0)


def test_each_rank_of_an_even_ring_sends_as_much():
    # papers.md section 1: 2 B N dkv e (P-1)/P, for D = Dv
    p, n = 8, 512
    even = Attention(16, 4, 64, n, n, batch=2)
    schedule = algorithms.find("ring")["prefill"](even, Mesh(ring=p))

    each = sum(sent_bytes(op, schedule.mesh) for op in schedule.ops)

    assert each.tolist() == [2 * 2 * n * (4 * 64) * 2 * (p - 1) // p] * p


@every_length
@pytest.mark.parametrize("way", ways.names("all_gather"))
@pytest.mark.parametrize("p", [1, 2, 3, 8])
def test_all_gather_brings_every_key_to_every_other_rank_in_any_way(p, way, n, m):
    schedule = algorithms.find("all_gather_kv")["prefill"](problem(n, m), Mesh(cp=p))

    assert sent(schedule, all_gather=way) == (p - 1) * keys_and_values(m)


@every_length
@pytest.mark.parametrize("way", ways.names("all_to_all"))
@pytest.mark.parametrize("p, copies", [(1, 1), (2, 1), (4, 2), (6, 3), (12, 6)])
def test_ulysses_sends_all_but_a_pth_of_the_heads_there_and_back(p, copies, way, n, m):
    # Where P exceeds the 2 KV heads, each is copied P/2 times before it travels.
    schedule = algorithms.find("ulysses")["prefill"](problem(n, m), Mesh(ulysses=p))

    whole = queries(n) + keys_and_values(m, HKV * copies) + state(n)
    assert sent(schedule, all_to_all=way) == hops(way, p) * whole // p


@pytest.mark.parametrize("way", ["direct", "pairwise"])
def test_each_rank_of_ulysses_sends_its_own_rows_there_and_the_others_rows_back(way):
    # 10 queries and keys, contiguous over 4 ranks: 2, 3, 2, 3. There: 3/4 of the heads of one's own rows. Back: one's
    # quarter of the heads of everyone else's rows.
    schedule = algorithms.find("ulysses")["prefill"](problem(10, 10, layout="contiguous"), Mesh(ulysses=4))
    there, back = (op for op in schedule.ops if op.kind == "all_to_all")
    rows = [2, 3, 2, 3]

    row = queries(1) + keys_and_values(1, 4)
    assert sent_bytes(there, schedule.mesh, {"all_to_all": way}).tolist() == [3 * n * row // 4 for n in rows]
    assert sent_bytes(back, schedule.mesh, {"all_to_all": way}).tolist() == [(10 - n) * state(1) // 4 for n in rows]


@every_length
@pytest.mark.parametrize("way", ways.names("all_to_all"))
@pytest.mark.parametrize("r, u, copies", [(1, 1, 1), (3, 1, 1), (1, 4, 2), (2, 2, 1), (3, 4, 2), (2, 6, 3)])
def test_usp_is_ulysses_over_u_and_a_ring_over_r(r, u, copies, way, n, m):
    schedule = algorithms.find("usp")["prefill"](problem(n, m), Mesh(ring=r, ulysses=u))

    exchanged = queries(n) + keys_and_values(m, HKV * copies) + state(n)
    assert sent(schedule, "all_to_all", all_to_all=way) == hops(way, u) * exchanged // u
    assert sent(schedule, "permute") == (r - 1) * keys_and_values(m, HKV * copies)


GRIDS = [(1, 1), (1, 4), (4, 1), (2, 2), (2, 3), (3, 2), (3, 3), (3, 5), (4, 7)]


@every_length
@pytest.mark.parametrize("R, C", GRIDS)
@pytest.mark.parametrize("way", ways.names("all_gather"))
def test_attention2d_gathers_queries_along_rows_and_keys_along_columns(R, C, way, n, m):
    schedule = algorithms.find("attention2d")["prefill"](problem(n, m), Mesh(row=R, col=C))
    chosen = {"all_gather": way, "reduce_scatter": way}

    assert sent(schedule, "all_gather", **chosen) == (C - 1) * queries(n) + (R - 1) * keys_and_values(m)
    assert sent(schedule, "reduce_scatter", **chosen) == (C - 1) * state(n)


@pytest.mark.parametrize("R, C", GRIDS)
def test_attention2d_swaps_keys_with_the_transposed_place_unless_it_is_its_own(R, C):
    # Rank (r, c) keeps its shard where r*C + c = c*R + r, that is r (C-1) = c: gcd(R-1, C-1) + 1 times.
    m = 11 * R * C
    schedule = algorithms.find("attention2d")["prefill"](problem(m, m, layout="striped"), Mesh(row=R, col=C))
    kept = gcd(R - 1, C - 1) + 1 if R > 1 and C > 1 else R * C

    assert sent(schedule, "permute") == keys_and_values(11) * (R * C - kept)


@pytest.mark.parametrize("R, C", [(1, 1), (1, 4), (4, 1)])
def test_a_grid_of_one_row_or_column_swaps_nothing(R, C):
    schedule = algorithms.find("attention2d")["prefill"](problem(37, 41), Mesh(row=R, col=C))

    assert "permute" not in {op.kind for op in schedule.ops}


def test_the_fixed_points_of_the_transpose_send_nothing():
    schedule = algorithms.find("attention2d")["prefill"](problem(90, 90), Mesh(row=3, col=3))
    (swap,) = [op for op in schedule.ops if op.kind == "permute"]

    (transfer,) = transfers(swap, schedule.mesh)

    assert transfer.dst.tolist() == [-1, 3, 6, 1, -1, 7, 2, 5, -1]
    assert transfer.nbytes.tolist() == [0, *[keys_and_values(10)] * 3, 0, *[keys_and_values(10)] * 3, 0]


@pytest.mark.parametrize("way", ways.names("broadcast"))
@pytest.mark.parametrize("root", [0, 2])
def test_a_broadcast_brings_the_roots_shard_to_every_other_rank(way, root):
    @spmd("ring")
    def program(me, problem):
        (i,), (p,) = me.coords, me.sizes
        q, _, _ = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
        return {"out": broadcast(q, over="ring", root=root)}

    schedule = program(problem(10, 10, layout="contiguous"), Mesh(ring=4))  # shards of 2, 3, 2, 3

    assert sent(schedule, broadcast=way) == 3 * queries(2)


# -- jobs and types ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tp, kv_heads", [(1, 2), (2, 2), (4, 4), (12, 12)])
def test_tp_splits_heads_and_copies_kv_heads_beyond_their_number(tp, kv_heads):
    p = 3
    schedule = algorithms.find("ring")["prefill"](problem(37, 41), Mesh(dp=3, ring=p, tp=tp))

    assert sent(schedule) == (p - 1) * keys_and_values(41, kv_heads)


def test_under_tp_ulysses_copies_the_kv_heads_that_a_rank_has():
    # tp=2 leaves a rank 6 query heads and 1 KV head; 3 ranks of a Ulysses group need 3 copies.
    schedule = algorithms.find("ulysses")["prefill"](problem(37, 41), Mesh(ulysses=3, tp=2))

    assert sent(schedule) == 2 * (queries(37) + keys_and_values(41, 2 * 3) + state(37)) // 3


def test_every_dtype_travels_at_its_own_size():
    mixed = problem(37, 41, dtype="float16", kv_dtype="float8_e4m3", state_dtype="float64", grad_dtype="bfloat16")
    grid = algorithms.find("attention2d")["prefill"](mixed, Mesh(row=2, col=2))
    ring = algorithms.find("ring")["train"](mixed, Mesh(ring=2))

    assert sent(grid, "all_gather") == queries(37) + keys_and_values(41, e=1)
    assert sent(grid, "reduce_scatter") == 2 * state(37)
    assert sent(ring) == 2 * keys_and_values(41, e=1) + 2 * keys_and_values(41, e=2)


def test_latent_keys_and_values_travel_once():
    latent = Attention(16, 1, 24, 37, 41, head_dim_v=16, shared_kv=True, phase="train")

    assert sent(algorithms.find("ring")["prefill"](latent, Mesh(ring=4))) == 3 * 41 * 24 * E
    assert sent(algorithms.find("ring")["train"](latent, Mesh(ring=4))) == 6 * 41 * 24 * E + 4 * 41 * 24 * EG


# -- the records ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, phase, program", PROGRAMS, ids=[f"{n}-{p}" for n, p, _ in PROGRAMS])
def test_transfers_are_messages_between_different_members_of_a_group(name, phase, program):
    for mesh in [*meshes(program, (1, 3, 4)), *meshes(program, (3,), dp=2)]:
        schedule = traced(program, small(phase=phase, heads=12, batch=2), mesh)
        for op in (op for op in schedule.ops if op.stream) if schedule else ():
            group = np.empty(mesh.size, dtype=np.int64)
            for number, members in enumerate(mesh.groups(op.over)):
                group[members] = number
            for way in ways.names(op.kind) if op.kind != "permute" else ["direct"]:
                total, last = np.zeros(mesh.size, dtype=np.int64), (-1, -1)
                for transfer in transfers(op, mesh, {op.kind: way}):
                    src = np.flatnonzero(transfer.dst >= 0)
                    dst = transfer.dst[src]
                    assert (src != dst).all()
                    assert (group[src] == group[dst]).all()
                    assert len(set(dst)) == len(dst)
                    assert (transfer.nbytes[transfer.dst < 0] == 0).all()
                    assert (transfer.round, transfer.channel) > last
                    last = transfer.round, transfer.channel
                    total += transfer.nbytes
                np.testing.assert_array_equal(total, sent_bytes(op, mesh, {op.kind: way}))


def test_compute_sends_nothing():
    schedule = algorithms.find("ring")["prefill"](small(), Mesh(ring=3))

    assert sent_bytes(schedule.ops[3], schedule.mesh).tolist() == [0, 0, 0]
