"""Ranks that hold different things, one a process: the bits of all in one, and no message without rows."""

import re

import pytest

from tests.executor.ranks import needs_mpi, program

pytestmark = needs_mpi

SAME = """
from mpi4py import MPI
import algorithms
from algorithms.ir import Attention, Mesh
from algorithms.ways.transfers import sent_bytes
from executor import local, mpi
from executor.arrays import random_inputs

comm = MPI.COMM_WORLD
posted = []
for name in ("distflash", "tasp"):
    for phase, program in algorithms.find(name).items():
        for n in (1, comm.size - 1, 4 * comm.size + 3):
            problem = Attention(4, 2, 8, n, n, dtype="float64", state_dtype="float64", grad_dtype="float64",
                                mask="causal", phase=phase)
            schedule = program(problem, Mesh(**{program.axes[0]: comm.size}))
            arrays = random_inputs(problem)
            mine, all_ranks = mpi.run(schedule, arrays, comm), local.run(schedule, arrays)
            for key, x in mine.results.items():
                y = all_ranks.results[key][comm.rank]
                assert x.dtype == y.dtype and x.shape == y.shape and (x == y).all(), (name, phase, n, key)
            want = [sent_bytes(op, schedule.mesh)[comm.rank] for op in schedule.ops]
            assert mine.sent.tolist() == want == all_ranks.sent[:, comm.rank].tolist(), (name, phase, n)
print("same")
"""


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_each_rank_has_the_bits_of_the_local_run_and_sends_the_bytes_of_the_schedule(ranks):
    done = program(SAME, ranks=ranks)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("same") == ranks


def test_where_there_are_no_rows_no_message_is_posted():
    done = program(EMPTY, ranks=3)

    assert done.returncode == 0, done.stdout + done.stderr
    said = re.findall(r"rank \d posted \d+", done.stdout)  # ranks may write on one line
    assert sorted(said) == ["rank 0 posted 2", "rank 1 posted 2", "rank 2 posted 0"]


EMPTY = """
from mpi4py import MPI
from types import SimpleNamespace
import numpy as np
from algorithms.ir import Attention, Mesh, spmd
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.only import only
from algorithms.ops.permute import permute
from executor import local, mpi, rounds
from executor.arrays import random_inputs

@spmd("ring")
def some(me, problem):
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
    return attend(q, *permute(*only(k, v, where=i < 1), over="ring", shift=1))

class Counting:
    def __init__(self, comm): self.comm, self.posted = comm, 0
    def Irecv(self, *a): self.posted += 1; return self.comm.Irecv(*a)
    def Isend(self, *a): self.posted += 1; return self.comm.Isend(*a)

comm = MPI.COMM_WORLD
counting, real = [], rounds.permute
def watched(op, place, *rest):
    counting.append(Counting(place.comm))
    return real(op, place._replace(comm=counting[-1]), *rest)
mpi.permute = watched
problem = Attention(4, 2, 8, 9, 9, dtype="float64", state_dtype="float64")
mpi.run(some(problem, Mesh(ring=3)), random_inputs(problem), comm)
print(f"rank {comm.rank} posted {sum(c.posted for c in counting)}", flush=True)
"""
