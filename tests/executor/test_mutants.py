"""The proof is sharp: each way in which a schedule or its executor goes wrong, planted, breaks every bound it should.

A fault of the forward pass must show in out and lse, one of the backward pass in dq, dk and dv, and by a wide
margin: rounding is a twentieth of a bound, a fault is millions of them.
"""

from dataclasses import replace

import pytest

from algorithms.ir import Attention, Mesh, Value, spmd
from algorithms.ops.add import add
from algorithms.ops.attend import attend
from algorithms.ops.attend_backward import attend_backward
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient
from algorithms.ops.merge import merge
from algorithms.ops.permute import permute
from executor import local
from executor.arrays import random_inputs
from executor.exact import reference, shares
from executor.kernels import find

SHOWN = {"forward": {"out", "lse"}, "backward": {"dq", "dk", "dv"}}
MARGIN = {"float64": 1e6, "float32": 100.0, "float16": 100.0}
STEP = 1  # where the fault is


def ring(times=lambda _: 1, backward_times=lambda _: 1):
    """The ring of algorithms/ring.py, merging the block of step t `times(t)` times."""

    @spmd("ring", phase="train")
    def body(me, problem):
        (i,), (p,) = me.coords, me.sizes
        q, k, v = mine = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
        part = attend(q, k, v)
        for t in range(1, p):
            k, v = permute(k, v, over="ring", shift=1)
            for _ in range(times(t)):
                part = merge(part, attend(q, k, v))

        _, k, v = mine
        do = load_gradient(me, problem, q.tokens)
        d = delta(do, part.out)
        dq, dk, dv = attend_backward(q, k, v, do, part.lse, d)
        for t in range(1, p):
            k, v = permute(k, v, over="ring", shift=1)
            dk, dv = permute(dk, dv, over="ring", shift=1)
            for _ in range(backward_times(t)):
                dq, dk, dv = add((dq, dk, dv), attend_backward(q, k, v, do, part.lse, d))
        dk, dv = permute(dk, dv, over="ring", shift=1)
        return {"out": part.out, "lse": part.lse, "dq": dq, "dk": dk, "dv": dv}

    return body


class Faulty:
    """NumPy's kernel, with positions or the scale wrong in one of its functions."""

    def __init__(self, where, shift=0, factor=1.0):
        self.shift = {w: shift if w == where else 0 for w in SHOWN}
        self.factor = {w: factor if w == where else 1.0 for w in SHOWN}

    def attend(self, q, k, v, rows, cols, mask, score):
        score = score._replace(scale=score.scale * self.factor["forward"])
        return find("numpy").attend(q, k, v, rows + self.shift["forward"], cols, mask, score)

    def attend_backward(self, q, k, v, do, lse, delta, rows, cols, mask, score):
        score = score._replace(scale=score.scale * self.factor["backward"])
        return find("numpy").attend_backward(q, k, v, do, lse, delta, rows + self.shift["backward"], cols, mask, score)


def stale(schedule, kind):
    """The op of one step reads the buffers of the step before, and takes them for those of its own."""
    ops = [op for op in schedule.ops if op.kind == kind]
    old, new = ops[STEP], ops[STEP + 1]
    read = [Value(a.id, b.type, b.tokens) for a, b in zip(old.inputs[1:3], new.inputs[1:3], strict=True)]
    mutant = replace(new, inputs=(new.inputs[0], *read, *new.inputs[3:]))
    return replace(schedule, ops=tuple(mutant if op is new else op for op in schedule.ops))


def posed(dtype, layout, mask="causal"):
    state = "float64" if dtype == "float64" else "float32"
    return Attention(
        heads=4,
        kv_heads=2,
        head_dim=8,
        query_len=32,
        key_len=32,
        dtype=dtype,
        state_dtype=state,
        grad_dtype=state,
        mask=mask,
        layout=layout,
        phase="train",
    )


def run_shares(schedule, kernel="numpy"):
    arrays = random_inputs(schedule.problem)
    return shares(schedule, local.run(schedule, arrays, kernel=kernel).results, reference(schedule.problem, arrays))


@pytest.fixture(params=["forward", "backward"])
def where(request):
    return request.param


@pytest.fixture(params=["contiguous", "zigzag", "striped"])
def layout(request):
    return request.param


@pytest.fixture(params=list(MARGIN))
def problem(request, layout):
    return posed(request.param, layout)


MESH = Mesh(ring=4)


def assert_shows(found, where, problem):
    assert min(found[name] for name in SHOWN[where]) > MARGIN[problem.dtype], found


def test_without_a_fault_nothing_shows(problem):
    assert max(run_shares(ring()(problem, MESH)).values()) <= 1


def test_a_lost_tile_shows(problem, where):
    rule = {("times", "backward_times")[where == "backward"]: lambda t: int(t != STEP)}

    assert_shows(run_shares(ring(**rule)(problem, MESH)), where, problem)


def test_a_block_merged_twice_shows(problem, where):
    rule = {("times", "backward_times")[where == "backward"]: lambda t: 1 + (t == STEP)}

    assert_shows(run_shares(ring(**rule)(problem, MESH)), where, problem)


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_mask_off_by_one_shows(problem, where, shift):
    assert_shows(run_shares(ring()(problem, MESH), Faulty(where, shift=shift)), where, problem)


def test_a_stale_buffer_shows(problem, where):
    kind = {"forward": "attend", "backward": "attend_backward"}[where]

    assert_shows(run_shares(stale(ring()(problem, MESH), kind)), where, problem)


def test_a_wrong_scale_shows(problem, where):
    assert_shows(run_shares(ring()(problem, MESH), Faulty(where, factor=1.01)), where, problem)


@pytest.mark.parametrize("rank", range(3))
def test_a_copy_of_the_result_that_is_wrong_shows_on_whichever_rank(rank):
    from algorithms.tree import tree_decode
    from executor.exact import judge

    decode = Attention(4, 2, 8, 1, 9, dtype="float64", state_dtype="float64", phase="decode")
    schedule, arrays = tree_decode(decode, Mesh(cp=3)), random_inputs(decode)
    results = local.run(schedule, arrays).results
    assert judge(schedule, results, reference(decode, arrays)).share <= 1

    results["out"][rank] = results["out"][rank] * (1 + 1e-12)

    assert judge(schedule, results, reference(decode, arrays)).share > 1


@pytest.mark.parametrize("name", ["dq", "out"])
def test_a_result_that_is_left_out_is_no_proof(name):
    from executor.exact import judge

    problem = posed("float64", "zigzag")
    schedule, arrays = ring()(problem, MESH), random_inputs(problem)
    results = dict(local.run(schedule, arrays).results)
    del results[name]

    assert judge(schedule, results, reference(problem, arrays)).share == float("inf")
