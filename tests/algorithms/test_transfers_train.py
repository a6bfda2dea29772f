"""Bytes of training: what all ranks send, forward and backward, equals the formulas, for every way.

Conventions: as `volumes` has them. Gradients in flight have a dtype of their own: float32 unless said.
"""

import pytest

import algorithms
from algorithms import ways
from algorithms.ir import Mesh
from tests.algorithms.volumes import (
    DV,
    EO,
    HKV,
    LENGTHS,
    B,
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
