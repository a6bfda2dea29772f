"""The proof is sharp, continued: what is moved to a wrong place, planted in a schedule, a kernel or a result.

Each fault keeps every shape and type right, so that only the numbers can show it.
"""

from dataclasses import replace

import numpy as np
import pytest

from algorithms import find as find_algorithm
from algorithms.all_gather_kv import all_gather_kv
from algorithms.ir import Attention, Mesh, spmd
from algorithms.ops import module
from algorithms.ops.add import add
from algorithms.ops.attend import attend
from algorithms.ops.attend_backward import attend_backward
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient
from algorithms.ops.merge import merge
from algorithms.ops.permute import permute
from algorithms.ring import ring_attention, ring_attention_train
from algorithms.tree import tree_decode
from executor import local
from executor.arrays import random_inputs
from executor.exact import judge, reference
from executor.kernels import find

LEAST = 1e6  # bounds by which a fault must show, in float64
MESH = Mesh(ring=4)


def posed(**sizes):
    types = dict.fromkeys(("dtype", "state_dtype", "grad_dtype"), "float64")
    return Attention(**{"heads": 4, "kv_heads": 2, "head_dim": 8, "query_len": 32, "key_len": 32, **types, **sizes})


def judged(schedule, change=lambda results: None, kernel="numpy"):
    """How a run is judged after its results were changed."""
    arrays = random_inputs(schedule.problem)
    results = {name: list(ranks) for name, ranks in local.run(schedule, arrays, kernel=kernel).results.items()}
    change(results)
    return judge(schedule, results, reference(schedule.problem, arrays))


@pytest.fixture(params=["contiguous", "zigzag", "striped"])
def layout(request):
    return request.param


@pytest.mark.parametrize("name", ["out", "lse", "dq", "dk", "dv"])
def test_results_of_two_ranks_swapped_show(layout, name):
    schedule = ring_attention_train(posed(phase="train", layout=layout, mask="causal"), MESH)

    def swap(results):
        results[name][1], results[name][2] = results[name][2], results[name][1]

    assert judged(schedule).share <= 1
    assert judged(schedule, swap).share > LEAST


@pytest.mark.parametrize("name", ["out", "lse", "dq", "dk", "dv"])
def test_one_row_of_one_head_that_nobody_wrote_shows(layout, name):
    schedule = ring_attention_train(posed(phase="train", layout=layout), MESH)

    def forget(results):
        results[name][3] = results[name][3].copy()
        results[name][3][2, 1] = 0

    assert judged(schedule, forget).share > LEAST


@pytest.mark.parametrize("rank", range(4))
def test_a_copy_that_is_no_number_shows_whichever_rank_has_it(rank):
    schedule = tree_decode(posed(phase="decode", query_len=1), Mesh(cp=4))

    def spoil(results):
        results["out"][rank] = np.full_like(results["out"][rank], np.nan)

    assert judged(schedule).share <= 1
    assert judged(schedule, spoil).share == float("inf")


class Regrouped:
    """NumPy's kernel with query head h on KV head h mod Hkv, in place of h // (H / Hkv)."""

    def attend(self, q, k, v, rows, cols, mask, score):
        group = q.shape[1] // k.shape[1]
        order = np.arange(q.shape[1]).reshape(group, -1).T.ravel()  # heads that share a KV head, one after the other
        out, lse = find("numpy").attend(q[:, order], k, v, rows, cols, mask, score)
        back = np.argsort(order)
        return out[:, back], lse[:, back]


def test_query_heads_on_the_wrong_kv_heads_show(layout):
    assert judged(ring_attention(posed(layout=layout), MESH), kernel=Regrouped()).share > LEAST


def test_a_gather_in_another_order_than_its_tokens_shows(layout, monkeypatch):
    gather = module("all_gather")
    take = gather.take

    def turned(xp, blocks, i, rows, params):
        names = sorted(blocks)
        return take(xp, dict(zip(names, [blocks[b] for b in names[1:] + names[:1]], strict=True)), i, rows, params)

    schedule = all_gather_kv(posed(layout=layout, mask="causal"), Mesh(cp=4))
    assert judged(schedule).share <= 1
    monkeypatch.setattr(gather, "take", turned)
    assert judged(schedule).share > LEAST


def decoding(name, **axes):
    return find_algorithm(name)["decode"](posed(phase="decode", query_len=2, heads=8, kv_heads=4), Mesh(**axes))


@pytest.mark.parametrize(
    "kind, schedule",
    [
        ("all_gather", decoding("gather_q", cp=4)),  # queries by head, and every rank's lse
        ("all_gather", decoding("tree_two_level", node=2, local=4)),
        ("reduce_scatter", decoding("helix", cp=4)),
        ("reduce_scatter", decoding("pass_q", cp=4)),
    ],
    ids=["gather_q", "tree_two_level", "helix", "pass_q"],
)
def test_parts_of_the_heads_that_go_to_the_next_rank_show(kind, schedule, monkeypatch):
    collective = module(kind)
    take = collective.take

    def turned(xp, blocks, member, rows, params):
        p = len(rows)
        return take(xp, {b: blocks[(b + 1) % p] for b in range(p)}, member, rows, params)

    assert judged(schedule).share <= 1
    monkeypatch.setattr(collective, "take", turned)
    assert judged(schedule).share > LEAST


def test_a_state_that_stays_where_its_queries_visited_shows(monkeypatch):
    scatter = module("reduce_scatter")
    give, schedule = scatter.give, decoding("pass_q", cp=4)

    def stayed(xp, arrays, member, rows, params):
        return {(2 * member - b) % len(rows): block for b, block in give(xp, arrays, member, rows, params).items()}

    assert judged(schedule).share <= 1
    monkeypatch.setattr(scatter, "give", stayed)
    assert judged(schedule).share > LEAST


@pytest.mark.parametrize("weight", ["none", "own"])
def test_outputs_summed_without_their_share_of_the_row_show(weight, monkeypatch):
    def wrong(xp, out, lse, lses):
        return out * (1 if weight == "none" else xp.exp(lse)[..., None]), np.logaddexp.reduce(lses, axis=-1)

    schedule = decoding("gather_q", cp=4)
    assert judged(schedule).share <= 1
    monkeypatch.setattr(module("share"), "meaning", wrong)
    assert judged(schedule).share > LEAST


def unweighted(xp, out_a, lse_a, out_b, lse_b):
    return (out_a + out_b) / 2, np.logaddexp(lse_a, lse_b)


def lse_left(xp, out_a, lse_a, out_b, lse_b):
    return module("merge").right(xp, out_a, lse_a, out_b, lse_b)[0], lse_a


@pytest.mark.parametrize("wrong", [unweighted, lse_left])
def test_a_merge_that_forgets_the_lse_shows(layout, wrong, monkeypatch):
    merging = module("merge")
    monkeypatch.setattr(merging, "right", merging.meaning, raising=False)
    monkeypatch.setattr(merging, "meaning", wrong)

    assert judged(ring_attention(posed(layout=layout), MESH)).share > LEAST


def backward(last_hop=True, other_dq=False):
    """The ring's backward, its gradients left one rank short of home, or dq sent on to the next rank."""

    @spmd("ring", phase="train")
    def body(me, problem):
        (i,), (p,) = me.coords, me.sizes
        q, k, v = own = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
        part = attend(q, k, v)
        for _ in range(1, p):
            k, v = permute(k, v, over="ring", shift=1)
            part = merge(part, attend(q, k, v))
        _, k, v = own
        do = load_gradient(me, problem, q.tokens)
        d = delta(do, part.out)
        dq, dk, dv = attend_backward(q, k, v, do, part.lse, d)
        for _ in range(1, p):
            k, v = permute(k, v, over="ring", shift=1)
            dk, dv = permute(dk, dv, over="ring", shift=1)
            dq, dk, dv = add((dq, dk, dv), attend_backward(q, k, v, do, part.lse, d))
        if last_hop:
            dk, dv = permute(dk, dv, over="ring", shift=1)
        if other_dq:
            (dq,) = (permute(dq, over="ring", shift=1),)
        return {"out": part.out, "lse": part.lse, "dq": dq, "dk": dk, "dv": dv}

    return body


def claimed(schedule, like, *names):
    """The schedule whose results say that they are of the tokens of others."""
    tokens = {name: like.results[name].tokens for name in names}
    results = {n: replace(v, tokens=tokens.get(n, v.tokens)) for n, v in schedule.results.items()}
    return replace(schedule, results=results)


@pytest.mark.parametrize("fault, names", [({"last_hop": False}, ["dk", "dv"]), ({"other_dq": True}, ["dq"])])
def test_gradients_that_are_another_ranks_show(layout, fault, names):
    problem = posed(phase="train", layout=layout, mask="causal")
    right = backward()(problem, MESH)
    assert judged(right).share <= 1

    assert judged(claimed(backward(**fault)(problem, MESH), right, *names)).share > LEAST


@pytest.mark.parametrize("dtype, state, least", [("float64", "float64", 1e-12), ("float32", "float32", 1e-4)])
def test_the_smallest_wrong_scale_that_shows(dtype, state, least):
    class Scaled:
        def attend(self, q, k, v, rows, cols, mask, score):
            wrong = score._replace(scale=score.scale * (1 + least))
            return find("numpy").attend(q, k, v, rows, cols, mask, wrong)

    problem = posed(dtype=dtype, state_dtype=state)

    assert judged(ring_attention(problem, MESH)).share <= 1
    assert judged(ring_attention(problem, MESH), kernel=Scaled()).share > 1


def test_states_kept_in_half_precision_are_held_to_a_percent():
    # 16 eps (1 + max|s|) of float16 is a tenth of the greatest value: a twentieth of the scale would pass
    class Scaled:
        def attend(self, q, k, v, rows, cols, mask, score):
            return find("numpy").attend(q, k, v, rows, cols, mask, score._replace(scale=score.scale * 1.01))

    problem = posed(dtype="float16", state_dtype="float16")

    assert judged(ring_attention(problem, MESH)).share < 0.5
    assert judged(ring_attention(problem, MESH), kernel=Scaled()).share > 1
