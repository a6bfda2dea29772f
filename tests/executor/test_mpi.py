"""One rank a process: the same numbers as dense attention, the same bits as all ranks in one process."""

import json

import pytest

from algorithms.ir.timeline import Timeline
from tests.executor.ranks import command, needs_mpi, program

pytestmark = needs_mpi

MUTANT = '''
from algorithms.ir import spmd
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.merge import merge
from algorithms.ops.permute import permute


@spmd("ring")
def lost(me, problem):
    """The last block goes round, and nobody looks at it."""
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
    part = attend(q, k, v)
    for step in range(1, p):
        k, v = permute(k, v, over="ring", shift=1)
        if step < p - 1:
            part = merge(part, attend(q, k, v))
    return part
'''


FEWER = ("--layout", "zigzag", "--mask", "causal")  # cases, where meshes are many


@pytest.mark.parametrize("ranks, options", [(1, ()), (2, ()), (3, ()), (4, ()), (6, FEWER), (8, FEWER)])
def test_every_algorithm_is_exact_on_every_mesh_of_so_many_ranks(ranks, options):
    done = command("check", "all", "--json", *options, ranks=ranks, timeout=900)

    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["cluster"]["ranks"] == ranks
    assert {row["algorithm"] for row in answer["results"]} >= {"ring", "attention2d", "tree", "ulysses", "usp"}
    layouts = {"zigzag"} if options else {"contiguous", "zigzag", "striped", "documents"}
    assert {row["layout"] for row in answer["results"]} == layouts
    assert all(row["exact"] and row["error_of_bound"] < 0.5 for row in answer["results"])


DOUBLING = "all_gather=doubling,reduce_scatter=doubling,all_reduce=doubling,all_to_all=doubling"


@pytest.mark.parametrize("ways, ranks", [("default", 4), (DOUBLING, 3)])
def test_collectives_carried_out_in_our_ways_are_as_exact(ways, ranks):
    done = command("check", "all", "--ways", ways, "--mask", "causal", "--layout", "zigzag", ranks=ranks)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--dtype", "float16", "--state-dtype", "float16"],
        ["--dtype", "float32", "--kv-dtype", "float16", "--layout", "pages:4"],
        ["--tp", 2],
        ["--tp", 2, "--dp", 2],
        ["--dtype", "float32"],
    ],
)
def test_other_dtypes_and_jobs_are_exact(options):
    done = command("check", "all", "--mask", "causal", "--layout", "zigzag", *options, ranks=4)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_each_rank_has_the_bits_of_the_local_run_and_sends_the_bytes_of_the_schedule(ranks):
    done = program(SAME, ranks=ranks)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("same") == ranks


SAME = """
import numpy as np
from mpi4py import MPI
import algorithms
from algorithms import ways as known
from algorithms.ir import Attention, Inapplicable, Mesh
from algorithms.ways.transfers import sent_bytes
from executor import local, mpi
from executor.arrays import random_inputs

comm = MPI.COMM_WORLD
each = {kind: known.names(kind) for kind in known.COLLECTIVES}
turns = max(map(len, each.values()))  # so that every way of every collective has its turn
chosen = [{kind: names[k % len(names)] for kind, names in each.items()} for k in range(turns)]
for name in algorithms.names():
    for phase, program in algorithms.find(name).items():
        sizes = (1, comm.size) if program.axes == ("node", "local") else (comm.size, 1, 1)
        mesh = Mesh(**dict(zip(program.axes, sizes)))
        problem = Attention(24, 12, 8, 7, 11, dtype="float64", state_dtype="float64", grad_dtype="float64",
                            mask="causal", layout="zigzag", phase=phase)
        try:
            schedule = program(problem, mesh)
        except Inapplicable:
            continue
        arrays = random_inputs(problem)
        for ways in (None, {}, *chosen):
            mine, all_ranks = mpi.run(schedule, arrays, comm, ways=ways), local.run(schedule, arrays, ways=ways)
            by_library = ways is None and any(op.kind == "all_reduce" for op in schedule.ops)
            for key, x in mine.results.items():
                y = all_ranks.results[key][comm.rank]
                close = np.allclose(x, y, rtol=0, atol=1e-14) if by_library else (x == y).all()
                assert x.dtype == y.dtype and x.shape == y.shape and close, (name, key)
            if ways is not None:
                want = [sent_bytes(op, mesh, ways)[comm.rank] for op in schedule.ops]
                assert mine.sent.tolist() == want == all_ranks.sent[:, comm.rank].tolist(), name
print("same")
"""


def test_a_mutant_from_a_file_fails_the_check(tmp_path):
    file = tmp_path / "mutant.py"
    file.write_text(MUTANT)

    done = command("check", f"{file}:lost", "--mask", "full", ranks=3)

    assert done.returncode == 1
    assert "FAIL: 3 of 3 lines" in done.stdout
    assert "S8: lost: result out of rank 0 has not met every key exactly once" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_ranks_and_hosts_are_always_told():
    done = command("check", "ring", "--layout", "striped", ranks=2)

    assert done.stdout.startswith("2 ranks on 1 host (")


def test_a_timeline_has_every_op_of_every_rank_in_its_order(tmp_path):
    file = tmp_path / "measured.json"
    one = ["--phase", "prefill", "--mask", "full", "--layout", "contiguous", "--heads", 4, "--seq", 90]

    done = command("check", "ring", *one, "--timeline", file, ranks=3)

    assert done.returncode == 0, done.stderr
    timeline = Timeline.read(file)
    assert timeline.clock == "measured"
    assert timeline.start.shape == timeline.end.shape == timeline.sent.shape == (len(timeline.ops), 3)
    assert (timeline.start <= timeline.end).all()
    hops = [op["id"] for op in timeline.ops if op["kind"] == "permute"]
    block = 2 * 30 * 4 * 8 * 8  # k and v of 30 tokens, 4 heads, width 8, float64
    assert timeline.sent[hops].tolist() == [[block] * 3] * 2
    reads = [op["id"] for op in timeline.ops if op["kind"] == "attend"][1:]
    assert (timeline.end[hops] <= timeline.start[reads]).all()
    assert timeline.about["mesh"] == {"ring": 3}


WARMED = """
from executor import launch
comm = launch.world()
from algorithms import find
from executor.cases import Asked, cases
from executor.kernels import fused_merge, fused_numba
from executor.overmpi import warm_all
todo = cases({"ring": find("ring")}, Asked(phases=["train"]), comm.size, "")[0]
warm_all(comm, "numba", [problem for case in todo for problem in case.problems])
functions = fused_numba.softmax_tile, fused_numba.gradient_tile, fused_merge.weighted_sum
assert all(len(f.signatures) == 1 for f in functions), [f.signatures for f in functions]
"""


def test_every_rank_has_its_kernel_before_anything_is_timed():
    done = program(WARMED, ranks=2)

    assert done.returncode == 0, done.stderr
