"""Bytes of algorithms whose ranks send different things, or over links of their own: conventions as in `volumes`."""

import numpy as np
import pytest

import algorithms
from algorithms.ir import Mesh
from algorithms.ways.transfers import transfers
from tests.algorithms.volumes import DV, EG, EO, LENGTHS, B, D, E, H, keys_and_values, problem, queries, sent, state

every_length = pytest.mark.parametrize("n, m", LENGTHS)


def shards(n, p):
    """Rows of each contiguous shard."""
    return [(i + 1) * n // p - i * n // p for i in range(p)]


def distflash_steps(n, p):
    """Rows whose keys are sent, and rows whose queries are lent, in each step."""
    rows = shards(n, p)
    for t in range(1, p // 2 + 1):
        yield sum(rows[: p - t]), sum(rows[p - t :]) if 2 * t < p else 0


@pytest.mark.parametrize("n", [240, 41, 7, 3, 1])
@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 8])
def test_distflash_sends_keys_on_and_lends_the_queries_of_those_that_have_most(p, n):
    schedule = algorithms.find("distflash")["prefill"](problem(n, n, layout="contiguous"), Mesh(cp=p))

    assert sent(schedule) == sum(keys_and_values(m) + queries(q) + state(q) for m, q in distflash_steps(n, p))


@pytest.mark.parametrize("n", [240, 41, 7, 3, 1])
@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 8])
def test_backward_distflash_sends_the_same_keys_and_their_gradients_home_or_all_that_belongs_to_a_query(p, n):
    # There: k and v, or q, do, lse and delta. Back: dk and dv, or dq.
    schedule = algorithms.find("distflash")["train"](problem(n, n, layout="contiguous", phase="train"), Mesh(cp=p))

    forward = sum(keys_and_values(m) + queries(q) + state(q) for m, q in distflash_steps(n, p))
    there = sum(keys_and_values(m) + q * B * H * ((D + DV) * E + 2 * EO) for m, q in distflash_steps(n, p))
    back = sum(keys_and_values(m, e=EG) + q * B * H * D * EG for m, q in distflash_steps(n, p))
    assert sent(schedule) == forward + there + back


@pytest.mark.parametrize("p", [2, 3, 8, 9])
def test_distflash_sends_three_eighths_of_p_squared_blocks_of_keys_and_one_of_queries(p):
    steps = list(distflash_steps(p, p))  # one row a block

    assert 8 * sum(m for m, _ in steps) == ((p - 1) * (3 * p - 1) if p % 2 else p * (3 * p - 2))
    assert 8 * sum(q for _, q in steps) == (p * p - 1 if p % 2 else p * (p - 2))


@every_length
@pytest.mark.parametrize("phase", ["prefill", "train"])
@pytest.mark.parametrize("layout", ["zigzag", "striped", "contiguous"])
@pytest.mark.parametrize("p", [1, 2, 3, 5, 8])
def test_tasp_sends_what_a_ring_sends(p, layout, phase, n, m):
    asked = problem(n, m, layout=layout, phase=phase)
    ring, tasp = (algorithms.find(name)[phase](asked, Mesh(ring=p)) for name in ("ring", "tasp"))

    assert sent(tasp) == sent(ring)


@pytest.mark.parametrize("phase", ["prefill", "train"])
@pytest.mark.parametrize("p", [2, 3, 5, 8])
def test_tasp_sends_as_much_over_every_link_of_a_full_mesh(p, phase):
    n = 2 * p * (p - 1) * 3
    schedule = algorithms.find("tasp")[phase](problem(n, n, phase=phase), Mesh(ring=p))
    carried = np.zeros((p, p), dtype=np.int64)

    for op in (op for op in schedule.ops if op.stream):
        for transfer in transfers(op, schedule.mesh):
            carried[np.arange(p), transfer.dst] += transfer.nbytes

    each = sent(schedule) // (p * (p - 1))
    assert carried.tolist() == [[0 if a == b else each for b in range(p)] for a in range(p)]
