"""One family: where two algorithms are the same by their papers, they send the same bytes on every link and agree.

Values are compared bit for bit: the same tiles are computed and joined in the same order.
"""

import re

import numpy as np
import pytest

import algorithms
from algorithms.ir import Attention, Mesh, Partial, spmd
from algorithms.ops.all_gather import all_gather
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.reduce_scatter import reduce_scatter
from algorithms.ways import DEFAULT
from executor import local
from executor.arrays import assemble, random_inputs
from executor.exact import judge, reference
from sim.engine import run
from sim.lower import lower
from sim.program import freeze
from sim.simulate import Site, simulate
from topologies.basic import ring
from topologies.dgx import dgx_h100
from topologies.units import GB, TFLOP, us

P = 16
CLUSTERS = {"machines": dgx_h100(2), "ring": ring(P, 50 * GB, 1 * us, 100 * TFLOP)}


@spmd("cp")
def gather_queries(me, problem):
    """The example of docs/adding.md: keys stay, all queries come to them, and states are merged."""
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
    return Partial(*reduce_scatter(attend(all_gather(q, over="cp"), k, v), over="cp", op="merge", like=q))


def program(name, phase):
    return gather_queries if name == "gather_queries" else algorithms.find(name)[phase]


# (algorithm, its axes for P ranks), (the other, its axes), the phases in which they are one
SAME = [
    (("attention2d", lambda p: {"row": p, "col": 1}), ("all_gather_kv", lambda p: {"cp": p}), ("prefill", "train")),
    (("attention2d", lambda p: {"row": 1, "col": p}), ("gather_queries", lambda p: {"cp": p}), ("prefill",)),
    (("startrail", lambda p: {"ring": p, "group": 1, "team": 1}), ("ring", lambda p: {"ring": p}), ("prefill",)),
    (
        ("startrail", lambda p: {"ring": p, "group": 1, "team": 1}),
        ("burst", lambda p: {"outer": 1, "inner": p}),
        ("prefill", "train"),
    ),
    (("burst", lambda p: {"outer": 1, "inner": p}), ("ring", lambda p: {"ring": p}), ("prefill",)),
    (("burst", lambda p: {"outer": p, "inner": 1}), ("ring", lambda p: {"ring": p}), ("prefill",)),
    (("usp", lambda p: {"ring": 1, "ulysses": p}), ("ulysses", lambda p: {"ulysses": p}), ("prefill", "train")),
    (("usp", lambda p: {"ring": p, "ulysses": 1}), ("ring", lambda p: {"ring": p}), ("prefill", "train")),
    (
        ("loongtrain", lambda p: {"outer": 1, "inner": p // 2, "head": 2}),
        ("usp", lambda p: {"ring": p // 2, "ulysses": 2}),
        ("prefill", "train"),
    ),
    (("mesh_attention", lambda p: {"q": 1, "kv": p}), ("ring", lambda p: {"ring": p}), ("prefill", "train")),
    (
        ("attention2d_overlapped", lambda p: {"row": p, "col": 1}),
        ("ring", lambda p: {"ring": p}),
        ("prefill", "train"),
    ),
    (("all_gather_kv_heads", lambda p: {"cp": p}), ("all_gather_kv", lambda p: {"cp": p}), ("prefill", "train")),
]
CASES = [(one, other, phase) for one, other, phases in SAME for phase in phases]
every_pair = pytest.mark.parametrize(
    "one, other, phase", CASES, ids=[f"{one[0]}={other[0]}-{phase}" for one, other, phase in CASES]
)


def schedules(one, other, phase, p, **sizes):
    whole = {"heads": 16, "kv_heads": 4, "head_dim": 16, "batch": 2, "mask": "causal", "layout": "striped"} | sizes
    problem = Attention(**whole, phase=phase)
    return [program(name, phase)(problem, Mesh(**axes(p))) for name, axes in (one, other)]


def bytes_by_link(schedule, graph):
    """Bytes that every link carries, in the order of the network's links."""
    site = Site(graph)
    return run(freeze(lower(schedule, site.machine, DEFAULT).program, site.network)).link_bytes


@pytest.mark.parametrize("cluster", CLUSTERS)
@every_pair
def test_every_link_carries_the_same_bytes(one, other, phase, cluster):
    for length in (1024, 1003):
        a, b = schedules(one, other, phase, P, query_len=length, key_len=length)
        carried = [bytes_by_link(schedule, CLUSTERS[cluster]) for schedule in (a, b)]

        np.testing.assert_allclose(*carried, rtol=1e-12)
        assert carried[0].any()


@pytest.mark.parametrize("dtype, state", [("float64", "float64"), ("float32", "float32"), ("float16", "float32")])
@every_pair
def test_results_are_the_same_bits(one, other, phase, dtype, state):
    sizes = {"query_len": 37, "key_len": 45, "dtype": dtype, "state_dtype": state, "grad_dtype": state}
    a, b = schedules(one, other, phase, 8, heads=8, kv_heads=2, head_dim_v=12, **{"head_dim": 16} | sizes)
    arrays = random_inputs(a.problem)

    results = [local.run(schedule, arrays, ways={}).results for schedule in (a, b)]

    for name in results[0].keys() & results[1].keys():
        whole = [assemble(schedule, name, found[name]) for schedule, found in zip((a, b), results, strict=True)]
        np.testing.assert_array_equal(*whole)
    assert {"out"} <= results[0].keys() & results[1].keys()


@pytest.mark.parametrize("phase", ["prefill", "train"])
@pytest.mark.parametrize("p", [2, 5, 8])
def test_a_mesh_of_one_row_is_a_ring_op_for_op(p, phase):
    tile, ring = schedules(SAME[9][0], SAME[9][1], phase, p, query_len=40, key_len=40)

    renamed = re.sub(r"\bkv\b", "ring", str(tile)).replace("mesh_attention on q=1,ring", "ring on ring")
    assert renamed == str(ring)
    assert [str(v.tokens).replace("kv", "ring") for op in tile.ops for v in op.outputs] == [
        str(v.tokens) for op in ring.ops for v in op.outputs
    ]


GRID = {
    "attention2d": {"row": 4, "col": 4},
    "attention2d_overlapped": {"row": 4, "col": 4},
    "mesh_attention": {"q": 4, "kv": 4},
    "startrail": {"ring": 1, "group": 4, "team": 4},
}


@pytest.mark.parametrize("R, C", [(1, 1), (1, 4), (4, 1), (2, 2), (3, 3), (2, 4), (4, 3)])
def test_attention2d_overlapped_attends_each_of_others_queries_to_all_keys_at_once(R, C):
    # papers.md 2.2: 2 sqrt(P) - 1 calls. Backward the first and the last queries meet keys block by block.
    calls = {"attend": R + C - 1, "attend_backward": 2 * R + C - 2 if C > 1 else R}
    schedule = algorithms.find("attention2d_overlapped")["train"](
        Attention(4, 2, 8, 40, 40, phase="train"), Mesh(row=R, col=C)
    )

    assert {kind: sum(op.kind == kind for op in schedule.ops) for kind in calls} == calls


def test_the_grids_are_one_family_they_send_as_much_and_agree_to_rounding():
    # StarTrail of one ring, Mesh-Attention and both forms of ATTENTION2D differ in who computes which tile, and when.
    problem = Attention(8, 2, 16, 96, 96, mask="causal", layout="striped", dtype="float64", state_dtype="float64")
    arrays = random_inputs(problem)
    known = reference(problem, arrays)
    sent = {}
    for name, axes in GRID.items():
        schedule = algorithms.find(name)["prefill"](problem, Mesh(**axes))
        done = local.run(schedule, arrays, ways={})
        sent[name] = int(done.sent.sum())
        assert judge(schedule, done.results, known).share < 0.2

    transposed = sent["attention2d"] - sent["mesh_attention"]
    assert sent["attention2d"] == sent["attention2d_overlapped"] == sent["startrail"]
    assert transposed == 96 * 2 * 2 * 16 * 8 * 12 // 16  # keys and values of 12 of 16 ranks, which are not their own


def test_a_ring_of_rings_crosses_machines_less_often_over_more_links_and_is_faster_where_they_are_slow():
    problem = Attention(8, 8, 128, 4096, 4096)
    (one, across), (two, inside) = (
        (simulate(algorithms.find("burst")["prefill"](problem, Mesh(outer=o, inner=P // o)), CLUSTERS["machines"]), o)
        for o in (1, 2)
    )

    assert (across, inside) == (1, 2)
    assert two.makespan < one.makespan
    assert sum(two.link_bytes.values()) <= sum(one.link_bytes.values())
