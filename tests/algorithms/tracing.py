"""What several tests need: meshes that suit an algorithm, and schedules to look at."""

import itertools
import math

import pytest

import algorithms
from algorithms.ir import Attention, Inapplicable, Mesh, ScheduleError, spmd
from algorithms.ir.laws import check
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.merge import merge
from algorithms.ops.permute import permute

PROGRAMS = [(name, phase, program) for name in algorithms.names() for phase, program in algorithms.find(name).items()]


def meshes(program, sizes=(1, 2, 3, 4), **job):
    """Meshes of these sizes an axis for a program, with job axes around; of three axes the smaller ones."""
    largest = max(16, min(sizes) ** 3) if len(program.axes) > 2 else math.inf
    splits = [
        dict(zip(program.axes, split, strict=True)) for split in itertools.product(sizes, repeat=len(program.axes))
    ]
    fitting = [s for s in splits if math.prod(s.values()) <= largest and len({s[a] for a in program.equal}) <= 1]
    return [Mesh(**job, **split) for split in fitting]


def traced(program, problem, mesh):
    """The schedule, or None where the algorithm cannot serve the problem on the mesh."""
    try:
        return program(problem, mesh)
    except Inapplicable:
        return None


def serves(name, problem):
    """Whether an algorithm serves a problem on some mesh at all: one of ours balances a causal mask, and no other."""
    alike = problem.layout == "contiguous" and problem.mask.causal and not problem.cached
    return name != "distflash" or alike


def small(phase="prefill", **changes):
    """A small problem that no algorithm and no shard divides evenly."""
    sizes = {"heads": 4, "kv_heads": 2, "head_dim": 8, "query_len": 37, "key_len": 41}
    return Attention(**sizes | {"phase": phase, "mask": "causal"} | changes)


P = 4  # ranks of the rings below


def ring_of(body, p=P, **changes):
    """Trace body(q, k, v, i, p, me) on a ring and check the schedule."""

    @spmd("ring")
    def program(me, problem):
        (i,), (p,) = me.coords, me.sizes
        return body(*load(me, problem, problem.queries(p)[i], problem.keys(p)[i]), i, p, me)

    schedule = program(small(**changes), Mesh(ring=p))
    check(schedule)
    return schedule


def breaks(law, match=""):
    return pytest.raises(ScheduleError, match=rf"^{law}: .*{match}")


def tour(shifts, start=0, **how):
    """A ring whose hops are these shifts."""

    def body(q, k, v, i, p, me):
        part = attend(q, k, v)
        for shift in shifts:
            k, v = permute(k, v, over="ring", shift=shift, **how)
            part = merge(part, attend(q, k, v))
        return part

    return body


def late(buffers):
    """Receive everything first, attend afterwards."""

    def body(q, k, v, i, p, me):
        blocks = [(k, v)]
        for _ in range(1, p):
            blocks.append(permute(*blocks[-1], over="ring", shift=1, buffers=buffers))
        part = attend(q, *blocks[0])
        for block in blocks[1:]:
            part = merge(part, attend(q, *block))
        return part

    return body
