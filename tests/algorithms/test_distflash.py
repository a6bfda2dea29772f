"""DistFlashAttention: every rank attends one tile a step, and a tile is attended where its keys or its queries are."""

import numpy as np
import pytest

import algorithms
import algorithms.distflash
from algorithms.ir import Attention, Inapplicable, Mesh
from algorithms.ir.laws import check
from algorithms.ir.schedule import per_rank
from algorithms.ops import work
from algorithms.ops.join import join
from algorithms.ops.only import only
from algorithms.ops.permute import permute
from tests.algorithms.tracing import breaks, small

PHASES = ["prefill", "train"]


def schedule(p, n, phase="prefill"):
    program = algorithms.find("distflash")[phase]
    return program(small(phase=phase, query_len=n, key_len=n), Mesh(cp=p))


def pairs(p, n, kind="attend", phase="prefill"):
    """Visible pairs by step and rank."""
    traced = schedule(p, n, phase)
    each = [op for op in traced.ops if op.kind == kind]
    return np.array([np.broadcast_to(work(op, traced.mesh.grid()).pairs, p) for op in each])


@pytest.mark.parametrize("kind", ["attend", "attend_backward"])
@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 8, 9, 16])
def test_every_rank_attends_one_whole_tile_a_step(p, kind):
    #   P = 5   rank 0  |own|helps 4|helps 3|      P = 4   rank 0  |own|helps 3|idle |
    #                1  |own|keys 0 |helps 4|                   1  |own|keys 0 |idle |
    #                2  |own|keys 1 |keys 0 |                   2  |own|keys 1 |keys 0|
    #                3  |own|keys 2 |keys 1 |                   3  |own|keys 2 |keys 1|
    #                4  |own|keys 3 |keys 2 |
    side = 6
    found = pairs(p, p * side, kind, "train")

    assert found.shape == (p // 2 + 1, p)
    assert (found[0] == side * (side + 1) // 2).all()
    assert (found[1 : (p + 1) // 2] == side**2).all()
    if p % 2 == 0:
        assert found[-1].tolist() == [0] * (p // 2) + [side**2] * (p // 2)


@pytest.mark.parametrize("p", [2, 3, 4, 5, 8, 9, 16])
def test_of_all_tiles_none_is_idle_for_odd_p_and_one_in_2p_for_even_p(p):
    # As the paper counts: of P^2 tiles that P ranks could attend in P steps, P/2 are nobody's; ring has (P^2 - P) / 2.
    idle = int((pairs(p, p * 6) == 0).sum())

    assert idle / p**2 == (0 if p % 2 else 1 / (2 * p))


@pytest.mark.parametrize("n", [41, 7, 3, 1])
@pytest.mark.parametrize("p", [1, 2, 3, 4, 7, 8])
def test_every_visible_pair_is_attended_once_at_any_length(p, n):
    assert pairs(p, n).sum() == n * (n + 1) // 2


@pytest.mark.parametrize("p", [3, 4, 8])
def test_a_tile_is_of_a_ranks_own_queries_or_its_own_keys(p):
    traced = schedule(p, 8 * p)
    for step, op in enumerate(op for op in traced.ops if op.kind == "attend"):
        queries, keys = (v.tokens.runs(traced.mesh.grid()) for v in op.inputs[:2])
        for rank in range(p):
            q, k = (int(np.broadcast_to(x.start[..., 0], p)[rank]) // 8 for x in (queries, keys))
            if np.broadcast_to(queries.count[..., 0], p)[rank]:
                assert (q, k) == ((rank, rank - step) if rank >= step else (p - step + rank, rank))


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"mask": "full"}, "distflash balances a causal mask: mask is full"),
        ({"layout": "zigzag"}, "distflash deals tokens in the contiguous layout: got zigzag"),
        ({"layout": "striped"}, "distflash deals tokens in the contiguous layout: got striped"),
        ({"query_len": 37}, "distflash deals queries and keys alike: 4 keys are cached"),
    ],
)
def test_what_it_cannot_serve_it_refuses_with_the_rule(phase, changes, reason):
    problem = small(**{"phase": phase, "query_len": 41} | changes)

    with pytest.raises(Inapplicable, match=f"^{reason}$"):
        algorithms.find("distflash")[phase](problem, Mesh(cp=4))


def test_sent_keys_and_lent_queries_share_one_message_a_step():
    traced = schedule(8, 64)
    ahead = [op for op in traced.ops if op.kind == "permute" and op.lane == 0]
    back = [op for op in traced.ops if op.kind == "permute" and op.lane == 1]

    assert len(ahead) == 4
    assert len(back) == 3
    for t, op in enumerate(ahead, 1):
        k, _, *q = (per_rank(v.type.rows, traced.mesh).tolist() for v in op.inputs)
        assert k == [8] * (8 - t) + [0] * t
        assert q == ([[0] * (8 - t) + [8] * t] if t < 4 else [])


def test_heads_lengths_and_types_are_free():
    problem = Attention(8, 1, 6, 23, 23, head_dim_v=4, shared_kv=True, batch=3, mask="causal", phase="train")

    assert algorithms.find("distflash")["train"](problem, Mesh(dp=3, cp=5, tp=4)).results["dk"].type.width == (1, 6)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("mask", ["causal", "window:5", "documents:10+3+28", "window:7,documents:20+21"])
def test_keys_that_a_causal_mask_hides_are_never_met_and_all_others_are(phase, mask):
    for p in (1, 2, 3, 4, 7, 16):
        for changes in ({}, {"sinks": True}, {"kv_heads": 1, "shared_kv": True}):
            problem = small(phase=phase, mask=mask, query_len=41, **changes)
            check(algorithms.find("distflash")[phase](problem, Mesh(cp=p)))


@pytest.mark.parametrize("phase", PHASES)
def test_s8_a_state_that_came_home_and_was_not_merged(phase, monkeypatch):
    # One that came by a permute says of which rank's number its condition is.
    kept = algorithms.distflash.merge
    monkeypatch.setattr("algorithms.distflash.merge", lambda a, b: a if "%" in str(b.out.tokens) else kept(a, b))

    with breaks("S8", r"result out of rank 3 has not met every key exactly once \(2 of 5 ranks\)"):  # those helped
        check(algorithms.find("distflash")[phase](small(phase=phase, query_len=41), Mesh(cp=5)))


@pytest.mark.parametrize("phase", PHASES)
def test_s6_a_helper_that_attends_its_own_queries(phase, monkeypatch):
    monkeypatch.setattr("algorithms.distflash._tile", selfish)

    with breaks("S6", "merge joins rows of different tokens"):
        algorithms.find("distflash")[phase](small(phase=phase, query_len=41), Mesh(cp=5))


def selfish(me, t, queries, keys):
    """A step in which ranks below t take their own queries for those of whom they should help."""
    (i,), (p,) = me.coords, me.sizes
    came = permute(*only(*keys, where=i < p - t), over="cp", shift=t)
    return queries, join(came, only(*keys, where=i < t))
