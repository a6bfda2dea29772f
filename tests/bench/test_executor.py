"""How much the MPI executor adds to each op: the same ring by hand and by schedule, over real messages to itself.

Thread CPU time, the two interleaved, the least of many runs: what a busy machine does to one it does to both.
"""

import time

import numpy as np
import pytest

from algorithms.ir import Attention, Mesh
from algorithms.ir.score import Score
from algorithms.ops.merge import meaning as merge
from algorithms.ring import ring_attention
from executor.arrays import Positions, loaded, random_inputs
from executor.interpret import bind
from executor.kernels import find
from executor.lower import execute, lower

pytestmark = pytest.mark.benchmark

STEPS, TARGET = 64, 5e-6  # blocks of the ring; seconds an op
ROUNDS = 60


@pytest.fixture(scope="module")
def schedule():
    sizes = {"heads": 1, "kv_heads": 1, "head_dim": 16, "query_len": 16 * STEPS, "key_len": 16 * STEPS}
    return ring_attention(Attention(**sizes, dtype="float64", state_dtype="float64"), Mesh(ring=STEPS))


@pytest.fixture(scope="module")
def program(schedule):
    """Rank 0's program, its ring neighbours both itself: every hop is a message, and takes no time on the way."""
    mpi = pytest.importorskip("mpi4py.MPI")
    from executor.native import Place
    from executor.rounds import permute

    arrays, positions, kernel = random_inputs(schedule.problem), Positions(schedule, 0), find("numpy")
    place = Place(mpi.COMM_SELF, schedule.mesh, 0, -1, [0] * len(schedule.ops))

    def compute(op):
        if op.kind == "load":
            shard = loaded(op, arrays, schedule, 0)
            return lambda: (shard,)
        return bind(op, positions, kernel)

    return lower(schedule, compute, lambda op: permute(op, place, 0, 0, [(16, 1, 16)] * 2))


def by_hand(schedule):
    """The same ring as one would write it."""
    from mpi4py import MPI

    arrays, positions, attend = random_inputs(schedule.problem), Positions(schedule, 0), find("numpy").attend
    q, k, v = (loaded(op, arrays, schedule, 0) for op in schedule.ops[:3])
    tiles = [[positions(x.tokens) for x in op.inputs[:2]] for op in schedule.ops if op.kind == "attend"]
    comm, score, mask = MPI.COMM_SELF, Score(schedule.problem.scale), schedule.problem.mask

    def run():
        own, blocks = (k, v), None
        out = lse = None
        for step, (rows, cols) in enumerate(tiles):
            requests = []
            if step < len(tiles) - 1:
                blocks = np.empty(k.shape), np.empty(v.shape)
                requests = [comm.Irecv([x, MPI.BYTE], 0, step) for x in blocks]
                requests += [comm.Isend([x, MPI.BYTE], 0, step) for x in own]
            part = attend(q, *own, rows, cols, mask, score)
            out, lse = part if out is None else merge(np, out, lse, *part)
            MPI.Request.Waitall(requests)
            own = blocks
        return out, lse

    return run


def least(function):
    before = time.thread_time()
    function()
    return time.thread_time() - before


def test_the_interpreter_adds_at_most_5_us_an_op(benchmark, schedule, program):
    hand = by_hand(schedule)
    out, lse = hand()
    execute(program, time.perf_counter)
    results = [program.slots[v.id] for v in schedule.results.values()]
    assert all((a == b).all() for a, b in zip((out, lse), results, strict=True))

    pairs = [(least(hand), least(lambda: execute(program, time.perf_counter))) for _ in range(ROUNDS)]
    by_hand_s, by_schedule_s = np.min(pairs, axis=0)
    overhead = (by_schedule_s - by_hand_s) / len(schedule.ops)
    benchmark.extra_info |= {"overhead_us_per_op": overhead * 1e6, "ops": len(schedule.ops)}
    benchmark(execute, program, time.perf_counter)
    print(f"\ninterpreter overhead {overhead * 1e6:.2f} us an op ({len(schedule.ops)} ops)")

    assert overhead <= TARGET


def test_the_loop_alone(benchmark, schedule):
    """Ops that do nothing: what is left is reading slots, calling, storing and noting the time."""
    from executor.lower import Communication

    def nothing(op):
        outputs = (None,) * len(op.outputs)
        return lambda *arrays: outputs

    program = lower(schedule, nothing, lambda op: Communication(lambda *x: None, lambda _: (None, None)))
    benchmark(execute, program, time.perf_counter)
    times = [least(lambda: execute(program, time.perf_counter)) for _ in range(ROUNDS)]
    benchmark.extra_info["us_per_line"] = min(times) / len(program.calls) * 1e6


def test_lowering_a_rank(benchmark, schedule):
    """Once a run: positions, kernels and peers of every op bound."""
    positions, kernel, arrays = Positions(schedule, 0), find("numpy"), random_inputs(schedule.problem)
    from executor.lower import Communication

    def compute(op):
        return (lambda: (loaded(op, arrays, schedule, 0),)) if op.kind == "load" else bind(op, positions, kernel)

    benchmark(lower, schedule, compute, lambda op: Communication(lambda *x: None, lambda _: (None, None)))
