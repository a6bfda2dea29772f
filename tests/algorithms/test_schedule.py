"""Schedules: what they print, and that they stay small however many ranks there are."""

import sys
from collections.abc import Mapping

import numpy as np
import pytest

import algorithms
from algorithms.ir import Attention, Mesh, Op, ScheduleError, TensorType, Value, spmd, tracing
from algorithms.ir.expr import Expr
from algorithms.ir.schedule import Schedule, per_rank
from algorithms.ir.tokens import Tokens
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from tests.algorithms.tracing import PROGRAMS, meshes, small, traced

PROBLEM = Attention(4, 2, 8, 12, 12, mask="causal", scale=0.5)
RING = """\
schedule ring on ring=2
     0  %0: bfloat16[6, 4, 8] = load() name=q
     1  %1: bfloat16[6, 2, 8] = load() name=k
     2  %2: bfloat16[6, 2, 8] = load() name=v
     3  %3: float32[6, 4, 8], %4: float32[6, 4] = attend(%0, %1, %2) mask=causal scale=0.5 head_dim_v=8
     4  %5: bfloat16[6, 2, 8], %6: bfloat16[6, 2, 8] = permute(%1, %2) over ring \
origin={ring: ((ring + 1) % 2)} buffers=2
     5  %7: float32[6, 4, 8], %8: float32[6, 4] = attend(%0, %5, %6) mask=causal scale=0.5 head_dim_v=8
     6  %9: float32[6, 4, 8], %10: float32[6, 4] = merge(%3, %4, %7, %8)
  results out=%9, lse=%10"""
TREE = """\
schedule tree_packed on cp=3
     0  %0: bfloat16[1, 4, 8] = load() name=q
     1  %1: bfloat16[#(contiguous 10/3[cp]), 1, 8] = load() name=k
     2  %2: float32[1, 4, 4], %3: float32[1, 4] = attend(%0, %1, %1) mask=full scale=0.5 head_dim_v=4
     3  %4: float32[1, 4] = all_reduce(%3) over cp op=max
     4  %5: float32[1, 4, 4], %6: float32[1, 4] = weigh(%2, %3, %4)
     5  %7: float32[1, 4, 4], %8: float32[1, 4] = all_reduce(%5, %6) over cp op=sum
     6  %9: float32[1, 4, 4], %10: float32[1, 4] = normalise(%7, %8, %4)
  results out=%9, lse=%10"""


def test_a_schedule_prints_as_its_program():
    assert str(algorithms.find("ring")["prefill"](PROBLEM, Mesh(ring=2))) == RING


def test_uneven_shards_and_shared_keys_and_values_show():
    latent = Attention(4, 1, 8, 1, 10, head_dim_v=4, shared_kv=True, phase="decode", scale=0.5)

    assert str(algorithms.find("tree_packed")["decode"](latent, Mesh(cp=3))) == TREE


def test_a_lane_shows():
    @spmd("ring")
    def program(me, problem):
        (i,), (p,) = me.coords, me.sizes
        q, _, _ = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
        from algorithms.ops.permute import permute

        return {"out": permute(q, over="ring", shift=1, lane=1, buffers=3)}

    (*_, last) = program(PROBLEM, Mesh(ring=2)).ops

    assert " over ring lane 1 " in str(last)
    assert last.stream == (("ring",), 1)


@pytest.mark.parametrize("name, phase, program", PROGRAMS, ids=[f"{n}-{p}" for n, p, _ in PROGRAMS])
def test_results_have_the_shapes_of_the_problem(name, phase, program):
    problem = small(phase=phase, batch=2, head_dim_v=6, state_dtype="float64", grad_dtype="float16")
    shapes = {"out": (8, 6), "lse": (8,), "dq": (8, 8), "dk": (4, 8), "dv": (4, 6)}
    for mesh in meshes(program):
        schedule = traced(program, problem, mesh)
        for result, value in (schedule.results if schedule else {}).items():
            rows = problem.key_len if result in ("dk", "dv") else problem.query_len
            heads, *width = value.type.width
            assert tuple(width) == shapes[result][1:]
            assert value.type.dtype == ("float16" if result.startswith("d") else "float64")
            copies = per_rank(value.type.rows, mesh).sum() * heads / (rows * shapes[result][0])
            assert copies == 1 or (phase == "decode" and copies == mesh.size)  # dealt, or all on every rank


@pytest.mark.parametrize("name, phase, program", PROGRAMS, ids=[f"{n}-{p}" for n, p, _ in PROGRAMS])
def test_the_rows_of_every_value_are_its_tokens(name, phase, program):
    for mesh in meshes(program, sizes=(1, 3), tp=2):
        schedule = traced(program, small(phase=phase), mesh)
        for value in [v for op in schedule.ops for v in op.outputs] if schedule else []:
            np.testing.assert_array_equal(per_rank(value.type.rows, mesh), per_rank(value.tokens.count, mesh))


def test_a_type_counts_its_bytes():
    kind = TensorType(Mesh(ring=4).coord("ring") + 1, (4, 8), "bfloat16")

    assert kind.row_nbytes == 64
    assert kind.nbytes(Mesh(ring=4).grid()).tolist() == [64, 128, 192, 256]
    assert str(kind) == "bfloat16[(ring + 1), 4, 8]"


def test_ops_are_called_while_tracing_only():
    schedule = algorithms.find("ring")["prefill"](PROBLEM, Mesh(ring=2))
    q, k, v = (op.outputs[0] for op in schedule.ops[:3])

    with pytest.raises(ScheduleError, match="ops are called inside an @spmd function"):
        attend(q, k, v)
    with pytest.raises(ScheduleError, match="ops are called inside an @spmd function"):
        tracing()


def test_a_program_that_fails_leaves_no_tracer_behind():
    @spmd("ring")
    def program(me, problem):
        raise KeyError("mine")

    with pytest.raises(KeyError):
        program(PROBLEM, Mesh(ring=2))
    with pytest.raises(ScheduleError, match="ops are called inside"):
        tracing()


@pytest.mark.parametrize("mesh", [Mesh(), Mesh(row=2), Mesh(ring=2, row=2), Mesh(tp=2)])
def test_a_program_is_given_its_own_axes(mesh):
    with pytest.raises(ScheduleError, match=f"^S3: ring needs mesh axes ring, got {mesh}"):
        algorithms.find("ring")["prefill"](PROBLEM, mesh)


@pytest.mark.parametrize(
    "axes, how, message",
    [
        ((), {}, "one or more mesh axes"),
        (("cp", "cp"), {}, "one or more mesh axes, each once"),
        (("tp",), {}, "other than tp, dp: got 'tp'"),
        (("a b",), {}, "is a name"),
        ((3,), {}, "is a name .* got 3"),
        (("cp",), {"phase": "prefil"}, "no phase 'prefil': .*nearest is prefill"),
        (("cp",), {"layouts": ("stripes",)}, "no layout 'stripes': .*nearest is striped"),
        (("cp",), {"layouts": ()}, "names the layouts worth trying"),
    ],
)
def test_an_algorithm_that_can_never_run_is_refused_where_it_is_written(axes, how, message):
    with pytest.raises(ScheduleError, match=message):
        spmd(*axes, **how)


def test_an_axis_may_have_any_name():
    @spmd("self")
    def program(me, problem):
        (i,), (p,) = me.coords, me.sizes
        return attend(*load(me, problem, problem.queries(p)[i], problem.keys(p)[i]))

    assert program(PROBLEM, Mesh(self=2)).mesh.axes == {"self": 2}


def test_axes_may_stand_in_any_order_with_job_axes_around():
    program = algorithms.find("attention2d")["prefill"]

    for mesh in (Mesh(row=2, col=3), Mesh(col=3, row=2), Mesh(dp=1, col=3, tp=2, row=2)):
        assert program(PROBLEM, mesh).ops[-1].kind == "reduce_scatter"


# -- size ----------------------------------------------------------------------------------------------------

MANY = 4096


def held(x, seen):
    """Every object that a schedule's record holds, walked through fields, slots and containers."""
    if id(x) in seen or isinstance(x, (str, int, float, type(None))):
        return
    seen[id(x)] = x
    if isinstance(x, Mapping):
        parts = list(x.values())
    elif isinstance(x, (tuple, list)):
        parts = list(x)
    elif isinstance(x, (Op, Value, TensorType, Expr, Tokens, Schedule)):
        parts = [getattr(x, name) for cls in type(x).__mro__ for name in getattr(cls, "__slots__", ())]
    else:
        parts = []
    for part in parts:
        held(part, seen)


def many(program):
    """4,096 ranks, spread over the program's axes, and a problem that the algorithm can serve on them."""
    sizes = {1: (MANY,), 2: (64, 64), 3: (16, 16, 16)}[len(program.axes)]
    sizes_of = {"batch": 512, "mask": "causal", "layout": "zigzag", "phase": program.phase}
    problem = Attention(4096, 8, 8, MANY * 7, MANY * 7 + 5, **sizes_of)
    return program(problem, Mesh(**dict(zip(program.axes, sizes, strict=True))))


STEPWISE = ("ring", "burst", "distflash", "tasp")  # of these a step follows from the one before: see below
FEWER = [x for x in PROGRAMS if x[0] not in STEPWISE]


@pytest.mark.parametrize("name, phase, program", FEWER, ids=[f"{n}-{p}" for n, p, _ in FEWER])
def test_no_op_holds_an_array_over_the_ranks(name, phase, program):
    schedule, seen = many(program), {}
    held(schedule, seen)

    arrays = [x for x in seen.values() if isinstance(x, np.ndarray)]
    assert max((a.size for a in arrays), default=0) < MANY
    assert sum(map(sys.getsizeof, seen.values())) < (1 << 20) + 4096 * len(schedule.ops)  # an array over ranks: 32 KiB


def test_the_walk_would_see_such_an_array():
    seen = {}
    held(Op(0, "permute", (), (), {"origin": {"ring": np.zeros(MANY)}}), seen)

    assert max(x.size for x in seen.values() if isinstance(x, np.ndarray)) == MANY


@pytest.mark.parametrize("name, layout", [("ring", "zigzag"), ("distflash", "contiguous")])
def test_a_rings_schedule_grows_by_the_same_for_every_step(name, layout):
    def objects(p):
        seen, program = {}, algorithms.find(name)["prefill"]
        held(program(small(layout=layout, query_len=41), Mesh(**{program.axes[0]: p})), seen)
        assert not any(isinstance(x, np.ndarray) for x in seen.values())
        return len(seen)

    small_ring, ring, large_ring = objects(16), objects(32), objects(64)

    assert large_ring - ring == 2 * (ring - small_ring)
