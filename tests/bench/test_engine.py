"""The table of docs/performance.md: programs of up to 65,536 ranks. `make bench`; each row runs in a fresh process.

Each row is timed in processor seconds of the second run, so that compiling counts for nothing, and memory is the
peak of the whole process, the compiler included.
"""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from algorithms import find
from algorithms.ir import Attention, Mesh
from algorithms.ways import DEFAULT
from sim.engine import run
from sim.fastest import run_fastest
from sim.lower import lower
from sim.program import Program, freeze
from sim.simulate import Site, simulate
from topologies.basic import two_level
from topologies.dgx import dgx_h100
from topologies.fabrics.fat_tree import fat_tree
from topologies.units import ms

pytestmark = pytest.mark.benchmark


def ring_program(ranks, cost):
    """A ring whose step k takes cost(k) seconds; a block is overwritten when it was read."""
    program, dst = Program(ranks), (np.arange(ranks) + 1) % ranks
    read, read_before, sent = [], [], []
    for step in range(ranks):
        read_before, read = read, [program.compute(cost(step), after=sent)]
        sent = [program.permute(dst, 32e6, after=read_before)]
    return program


def all_to_all(ranks):
    """Pairwise exchange: one shift after another."""
    program = Program(ranks)
    for shift in range(1, ranks):
        program.permute((np.arange(ranks) + shift) % ranks, 1e6)
    return program


def engine_of(program, network):
    """Freeze here, run there."""
    frozen = freeze(program, network)
    return lambda: run_fastest(frozen, "extent")


def two(ranks):
    return Site(two_level(ranks // 8)).network


def prefill(name, axes, mask, layout, more=0):
    """A schedule of 4,096 tokens a rank, and some more in all."""
    ranks = int(np.prod(list(axes.values())))
    problem = Attention(32, 8, 128, 4096 * ranks + more, 4096 * ranks + more, mask=mask, layout=layout)
    return find(name)["prefill"](problem, Mesh(**axes))


def engine_of_schedule(schedule, site):
    return engine_of(lower(schedule, site.machine, DEFAULT).program, site.network)


def ring(ranks):
    return engine_of_schedule(prefill("ring", {"ring": ranks}, "full", "contiguous"), Site(dgx_h100(ranks // 8)))


def traced_ring(ranks, mask, layout, more=0):
    """Tracing, lowering, the engine and the timeline."""
    site = Site(dgx_h100(ranks // 8))
    return lambda: simulate(prefill("ring", {"ring": ranks}, mask, layout, more), site)


def grid(side):
    schedule = prefill("attention2d", {"row": side, "col": side}, "full", "contiguous")
    return engine_of_schedule(schedule, Site(dgx_h100(side * side // 8)))


def unfolded_grid(side):
    site = Site(dgx_h100(side * side // 8))
    schedule = prefill("attention2d", {"row": side, "col": side}, "full", "contiguous")
    frozen = freeze(lower(schedule, site.machine, DEFAULT).program, site.network)
    return lambda: run(frozen, record="extent")


def tree(ranks):
    """Machines of eight on a fat tree, its leaves oversubscribed 2:1: of equal paths a flow takes one by hash."""
    return dgx_h100(ranks // 8, partial(fat_tree, oversubscription=2))


def grid_on_tree(side):
    schedule = prefill("attention2d", {"row": side, "col": side}, "full", "contiguous")
    return engine_of_schedule(schedule, Site(tree(side * side)))


def traced_grid_on_tree(side):
    """Graph, network, routes, tracing, lowering, the engine and the timeline."""
    axes = {"row": side, "col": side}
    return lambda: simulate(prefill("attention2d", axes, "full", "contiguous"), Site(tree(side * side)))


def straggler(ranks):
    cost = np.full(ranks, 1 * ms)
    cost[ranks // 2] *= 1.3
    return engine_of(ring_program(ranks, lambda _: cost), two(ranks))


def jitter(ranks, by_events=False):
    costs = 1e-3 * (1 + 0.3 * np.random.default_rng(0).random((ranks, ranks)))
    frozen = freeze(ring_program(ranks, lambda step: costs[step]), two(ranks))
    return lambda: run(frozen, record="extent") if by_events else run_fastest(frozen, "extent")


CASES = {
    "ring 1,024, symmetric": lambda: ring(1024),
    "ring 16,384, symmetric": lambda: ring(16384),
    "ring 16,384, causal, zigzag, tracing counted": lambda: traced_ring(16384, "causal", "zigzag"),
    "the same, one token more, so that ranks differ": lambda: traced_ring(16384, "causal", "zigzag", 1),
    "ring 4,096, causal, contiguous, tracing counted": lambda: traced_ring(4096, "causal", "contiguous"),
    "attention2d 128 x 128, folded": lambda: grid(128),
    "attention2d 128 x 128, unfolded": lambda: unfolded_grid(128),
    "all-to-all 1,024 pairwise": lambda: engine_of(all_to_all(1024), two(1024)),
    "ring 1,024, one straggler": lambda: straggler(1024),
    "ring 1,024, jitter": lambda: jitter(1024),
    "ring 1,024, jitter, event by event": lambda: jitter(1024, True),
    "attention2d 32 x 32 on a 2:1 fat tree, hashed ECMP": lambda: grid_on_tree(32),
    "attention2d 32 x 32 on a 2:1 fat tree, graph, routes and tracing counted": lambda: traced_grid_on_tree(32),
    "attention2d 256 x 256 = 65,536": lambda: grid(256),
}

CHILD = """
import json, resource, time
from tests.bench.test_engine import CASES
work = CASES[{name!r}]()
work()
wall, cpu = time.perf_counter(), time.process_time()
found = work()
print(json.dumps(dict(
    wall=time.perf_counter() - wall,
    cpu=time.process_time() - cpu,
    mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    how=found.how if hasattr(found, "how") else found.about["engine"],
    makespan=found.makespan,
)))
"""


@pytest.mark.parametrize("name", CASES)
def test_a_row_of_the_table(name, benchmark):
    def child():
        done = subprocess.run(
            [sys.executable, "-c", CHILD.format(name=name)], check=True, capture_output=True, text=True
        )
        benchmark.extra_info.update(json.loads(done.stdout.splitlines()[-1]))

    benchmark.pedantic(child, rounds=1)
    print(f"\n{name}: {benchmark.extra_info}")
