"""Every way carries real data: the executor runs it on every collective, and the collective's meaning comes out.

The arrays hold small integers, so that sums are exact in any order and results must be equal to the last bit.
"""

from itertools import product

import numpy as np
import pytest

from algorithms import ways
from algorithms.ir import Attention, Mesh, spmd
from algorithms.ops.all_gather import all_gather
from algorithms.ops.all_reduce import all_reduce
from algorithms.ops.all_to_all import split_heads, split_tokens
from algorithms.ops.attend import attend
from algorithms.ops.broadcast import broadcast
from algorithms.ops.load import load
from algorithms.ops.reduce_scatter import reduce_scatter
from algorithms.ways.transfers import sent_bytes
from executor import local

HEADS = 60  # every p of SIZES divides it
SIZES = [1, 2, 3, 4, 5, 6, 12]
EVERY = sorted((kind, way) for kind in ways.COLLECTIVES for way in ways.names(kind))


def loaded(me, problem):
    (i,), (p,) = me.coords, me.sizes
    return load(me, problem, problem.queries(p)[i], problem.keys(p)[i])


@spmd("cp")
def all_gathered(me, problem):
    q, k, v = loaded(me, problem)
    return dict(zip("qkv", all_gather(q, k, v, over="cp"), strict=True))


@spmd("cp")
def summed_and_scattered(me, problem):
    q, _, _ = loaded(me, problem)
    whole = all_gather(q, over="cp")
    return {"q": reduce_scatter((whole,), over="cp", op="sum", like=q)}


@spmd("cp")
def merged_and_scattered(me, problem):
    q, k, v = loaded(me, problem)
    return reduce_scatter(attend(all_gather(q, over="cp"), k, v), over="cp", op="merge", like=q)


@spmd("cp")
def all_reduced(me, problem):
    (i,), (p,) = me.coords, me.sizes
    q, _, _ = load(me, problem, problem.queries(1)[0], problem.keys(p)[i])
    total, again = all_reduce(q, all_reduce(q, over="cp", op="max"), over="cp", op="sum")
    return {"q": total, "again": again}


@spmd("cp")
def exchanged(me, problem):
    q, k, _ = loaded(me, problem)
    mine = split_heads(q, k, over="cp")
    return {"q": mine[0], "k": mine[1], "back": split_tokens(mine[0], over="cp", like=q)}


def told(root):
    @spmd("cp")
    def body(me, problem):
        q, k, _ = loaded(me, problem)
        return dict(zip("qk", broadcast(q, k, over="cp", root=root), strict=True))

    return body


PROGRAMS = {
    "all_gather": [all_gathered],
    "reduce_scatter": [summed_and_scattered],
    "all_reduce": [all_reduced],
    "all_to_all": [exchanged],
    "broadcast": [told(0), told(-1)],
}


def traced(program, p, dtype="float64"):
    """Uneven shards, some of them empty where p is large."""
    problem = Attention(HEADS, HEADS, 2, 7, 10, dtype=dtype, state_dtype=dtype)
    return program(problem, Mesh(cp=p))


def whole_numbers(schedule):
    rng = np.random.default_rng(0)
    problem = schedule.problem
    sizes = {"q": problem.query_len, "k": problem.key_len, "v": problem.key_len}
    return {name: rng.integers(-9, 9, (n, HEADS, 2)).astype(problem.dtype) for name, n in sizes.items()}


@pytest.mark.parametrize("p", SIZES)
@pytest.mark.parametrize("kind, way", EVERY, ids="-".join)
def test_a_way_brings_about_what_its_collective_means(kind, way, p):
    for program, dtype in product(PROGRAMS[kind], ["float64", "float16"]):
        program = told(p - 1) if program is PROGRAMS["broadcast"][-1] else program
        schedule = traced(program, p, dtype)
        arrays = whole_numbers(schedule)

        meant = local.run(schedule, arrays)
        done = local.run(schedule, arrays, ways={kind: way})

        for name, ranks in meant.results.items():
            assert all((a == b).all() and a.dtype == b.dtype for a, b in zip(ranks, done.results[name], strict=True))
        for op in schedule.ops:
            assert done.sent[op.id].tolist() == sent_bytes(op, schedule.mesh, {kind: way}).tolist()


@pytest.mark.parametrize("p", SIZES)
@pytest.mark.parametrize("way", ways.names("reduce_scatter"))
def test_a_merge_in_any_order_is_the_merge_in_member_order_up_to_rounding(way, p):
    schedule = traced(merged_and_scattered, p)
    arrays = whole_numbers(schedule)

    meant = local.run(schedule, arrays, kernel="dense").results
    done = local.run(schedule, arrays, kernel="dense", ways={"reduce_scatter": way}).results

    for a, b in zip(meant["out"], done["out"], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=9 * 4e-15)
    for a, b in zip(meant["lse"], done["lse"], strict=True):
        np.testing.assert_allclose(a, b, rtol=4e-15, atol=0)
    whole = sum(len(x) for x in done["out"])
    assert whole == 7


def test_an_all_reduce_leaves_the_same_bits_on_every_rank():
    for way, p in product(ways.names("all_reduce"), SIZES):
        schedule = traced(all_reduced, p)
        noise = {name: x * np.pi for name, x in whole_numbers(schedule).items()}

        results = local.run(schedule, noise, ways={"all_reduce": way}).results

        assert all((x == ranks[0]).all() for ranks in results.values() for x in ranks)
