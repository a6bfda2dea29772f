"""Bytes of decoding: what all ranks send together equals the formulas of papers.md section 1, for every way.

Conventions: as `volumes` has them.
"""

from math import log2

import pytest

import algorithms
from algorithms import ways
from algorithms.ir import Inapplicable, Mesh
from algorithms.ops.permute import destinations
from algorithms.ways.transfers import sent_bytes, transfers
from tests.algorithms.volumes import DV, EO, B, H, keys_and_values, problem, queries, sent, state


def reduced(way, p, nbytes):
    """Bytes that an all-reduce of so many bytes a rank sends in all."""
    if way in ("ring", "direct"):
        return 2 * (p - 1) * nbytes  # every piece to its owner, every sum to all
    core = 1 << (p.bit_length() - 1)  # whole vectors: log2 rounds among a power of two, the rest fold in and out
    return core * int(log2(core)) * nbytes + 2 * (p - core) * nbytes


@pytest.mark.parametrize("way", ways.names("all_reduce"))
@pytest.mark.parametrize("p", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("n", [1, 5])
def test_tree_decoding_reduces_a_maximum_a_denominator_and_a_numerator(p, way, n):
    lse, out = n * B * H * EO, n * B * H * DV * EO
    for name, collectives in (("tree", [lse, lse, out]), ("tree_packed", [lse, lse + out])):
        schedule = algorithms.find(name)["decode"](problem(n, 1000, phase="decode"), Mesh(cp=p))
        ops = [op for op in schedule.ops if op.kind == "all_reduce"]

        bytes_of_each = [sent_bytes(op, schedule.mesh, {"all_reduce": way}).sum() for op in ops]

        assert bytes_of_each == [reduced(way, p, nbytes) for nbytes in collectives]


def decoding(name, n, mesh, **changes):
    return algorithms.find(name)["decode"](problem(n, 1000, phase="decode", **changes), mesh)


every_exchange = pytest.mark.parametrize("way", ["direct", "doubling", "ring"])
every_p = pytest.mark.parametrize("p", [1, 2, 3, 4, 12])


@every_p
@pytest.mark.parametrize("n", [1, 5])
def test_a_decoding_ring_passes_every_key_however_few_the_queries(n, p):
    # papers.md 3.2: 2 b t d p elements over all hops of all ranks, t = 1000 / p, of which the last hop is not made
    assert sent(decoding("ring_pass_kv", n, Mesh(cp=p))) == (p - 1) * keys_and_values(1000)


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("p, rounds", [(1, 0), (2, 1), (4, 2), (16, 4)])
def test_a_butterfly_exchanges_whole_states_log2_p_times(n, p, rounds):
    schedule = decoding("tree_doubling", n, Mesh(cp=p))
    exchanges = [op for op in schedule.ops if op.kind == "permute"]

    assert [sent_bytes(op, schedule.mesh).tolist() for op in exchanges] == [[state(n)] * p] * rounds
    assert [destinations(op, schedule.mesh).tolist() for op in exchanges] == [
        [i ^ 1 << k for i in range(p)] for k in range(rounds)
    ]


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("p", [3, 5, 6, 7, 12, 13])
def test_ranks_beyond_a_power_of_two_hand_their_states_over_and_are_told_the_result(n, p):
    schedule = decoding("tree_doubling", n, Mesh(cp=p))
    core = 1 << (p.bit_length() - 1)
    inside, beyond = [state(n)] * core, [0] * (p - core)

    first, *exchanges, last = (sent_bytes(op, schedule.mesh) for op in schedule.ops if op.kind == "permute")

    assert first.tolist() == [0] * core + [state(n)] * (p - core)
    assert [x.tolist() for x in exchanges] == [inside + beyond] * int(log2(core))
    assert last.tolist() == [state(n)] * (p - core) + [0] * core
    assert sent(schedule) == reduced("doubling", p, state(n))


@every_exchange
@every_p
@pytest.mark.parametrize("n", [1, 5])
def test_helix_sends_each_rank_the_states_of_its_heads(n, p, way):
    # papers.md section 1: (P-1)/P of the state from each rank, however many keys there are
    schedule = decoding("helix", n, Mesh(cp=p))

    assert sent(schedule, reduce_scatter=way) == (p - 1) * state(n)


def test_the_exchange_of_helix_is_one_round_unless_another_way_is_said():
    (exchange,) = [op for op in decoding("helix", 1, Mesh(cp=4)).ops if op.kind == "reduce_scatter"]

    assert [t.round for t in transfers(exchange, Mesh(cp=4))] == [0, 0, 0]
    assert [t.round for t in transfers(exchange, Mesh(cp=4), {"reduce_scatter": "ring"})] == [0, 1, 2]
    assert sent_bytes(exchange, Mesh(cp=4)).tolist() == [3 * state(1) // 4] * 4


@every_exchange
@every_p
@pytest.mark.parametrize("n", [1, 5])
def test_gather_q_gathers_queries_and_every_lse_and_deals_the_sum(n, p, way):
    # q and out as papers.md section 1 has them. Every rank's lse is of all heads, and goes to all others.
    queries_there, lses, out_back = (
        op
        for op in decoding("gather_q", n, Mesh(cp=p), dtype="float16").ops
        if op.kind in ("all_gather", "reduce_scatter")
    )
    chosen = {"all_gather": way, "reduce_scatter": way}

    assert sent_bytes(queries_there, Mesh(cp=p), chosen).sum() == (p - 1) * queries(n)
    assert sent_bytes(lses, Mesh(cp=p), chosen).sum() == p * (p - 1) * n * B * H * EO
    assert sent_bytes(out_back, Mesh(cp=p), chosen).sum() == (p - 1) * n * B * H * DV * EO


@every_exchange
@pytest.mark.parametrize("nodes, g", [(1, 1), (1, 4), (4, 1), (2, 2), (3, 4), (2, 6), (5, 3)])
@pytest.mark.parametrize("n", [1, 5])
def test_a_tree_of_two_levels_takes_a_slice_across_nodes(n, nodes, g, way):
    # papers.md 3.2: (g-1)/g of the state into the node and out of it again, and an all-reduce of a g-th across nodes
    schedule = decoding("tree_two_level", n, Mesh(node=nodes, local=g))

    assert sent(schedule, "reduce_scatter", reduce_scatter=way) == nodes * (g - 1) * state(n)
    assert sent(schedule, "all_gather", all_gather=way) == nodes * (g - 1) * state(n)
    assert sent(schedule, "all_reduce", all_reduce=way) == g * reduced(way, nodes, state(n) // g)


@pytest.mark.parametrize("name, mesh", [("helix", Mesh(cp=8)), ("gather_q", Mesh(cp=8))])
def test_ranks_that_do_not_divide_the_heads_are_refused(name, mesh):
    with pytest.raises(Inapplicable, match="cp=8 does not divide the 12 query heads"):
        decoding(name, 1, mesh)


def test_the_ranks_of_a_node_divide_the_heads_and_the_nodes_need_not():
    decoding("tree_two_level", 1, Mesh(node=5, local=6, tp=2))
    with pytest.raises(Inapplicable, match="local=4 does not divide the 6 query heads"):
        decoding("tree_two_level", 1, Mesh(node=5, local=4, tp=2))


@every_exchange
@pytest.mark.parametrize("n, m", [(240, 240), (37, 41), (3, 7), (16, 1000)])
@pytest.mark.parametrize("p", [1, 2, 3, 8])
def test_pass_q_sends_queries_around_and_every_visits_state_home(p, n, m, way):
    # papers.md section 1, from each of P ranks: B T d e (P-1)/P of q, and (P-1)/P B T (d eo + 4 Hq) of the state
    schedule = algorithms.find("pass_q")["prefill"](problem(n, m), Mesh(cp=p))

    assert sent(schedule, "permute") == (p - 1) * queries(n)
    assert sent(schedule, "reduce_scatter", reduce_scatter=way) == (p - 1) * state(n)
    assert {op.kind for op in schedule.ops} <= {"load", "attend", "permute", "reduce_scatter"}


@every_exchange
@pytest.mark.parametrize("p", [1, 2, 3, 6])  # of 3 sequences with 2 KV heads
@pytest.mark.parametrize("n", [1, 5])
def test_pass_q_decoding_deals_sequences_and_kv_heads(p, n, way):
    schedule = decoding("pass_q", n, Mesh(cp=p))

    assert [sent_bytes(op, schedule.mesh).tolist() for op in schedule.ops if op.kind == "permute"] == [
        [queries(n) // p] * p
    ] * (p - 1)
    assert sent(schedule, "reduce_scatter", reduce_scatter=way) == (p - 1) * state(n)
    attends = [op for op in schedule.ops if op.kind == "attend"]
    assert [op.inputs[1].type.width for op in attends] == [(B * 2 // p, 8)] * p


def test_pass_q_decoding_refuses_ranks_that_would_share_a_kv_head():
    with pytest.raises(Inapplicable, match="cp=4 does not divide 6, the sequences times their KV heads"):
        decoding("pass_q", 1, Mesh(cp=4))
