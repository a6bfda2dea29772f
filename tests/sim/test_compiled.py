"""The compiled engine and its uncompiled source are one: the same bits."""

import hashlib
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np

from sim import jit
from sim.apart import rates
from sim.engine import run
from sim.fold import fold
from sim.maxplus import recur
from sim.network import Network
from sim.program import Program, freeze
from tests.sim.graphs import MiB, ring_attention, shift, star, two_level, us
from topologies.dgx import dgx_h100
from topologies.fabrics.fat_tree import fat_tree


def faults(env, engine):
    """A link goes down and comes back at half rate, and a GPU throttles."""
    link = engine.frozen.network.link("gpu7", "fabric")
    yield env.timeout(150 * us)
    engine.set_capacity(link, 0)
    yield env.timeout(90 * us)
    engine.set_capacity(link, 25e9)
    yield env.timeout(33 * us)
    engine.set_speed(5, 0.5)


def all_at_once(ranks, weight=1):
    """Return an all-to-all of unequal sizes in which every flow shares links."""
    program, sizes = Program(ranks), np.random.default_rng(0).integers(0, MiB, (ranks, ranks))
    for k in range(1, ranks):
        program.permute(shift(ranks, k), sizes[k], stream=k, weight=weight)
    return program


def digest():
    """Return a digest of every span of several runs."""
    jitter = np.random.default_rng(1).uniform(50, 150, 10) * us
    bits = hashlib.sha256()
    symmetric = freeze(ring_attention(12, 100 * us, 8 * MiB, steps=4), Network(two_level(12, node=4)))
    folded = fold(symmetric)
    apart = freeze(ring_attention(10, jitter, 8 * MiB, steps=5), Network(two_level(10)))
    for spans in (run(folded.frozen), recur(apart, rates(apart))):
        bits.update(spans.end.tobytes())
    for table in (folded.ranks.of, folded.links.of, folded.frozen.bare.weight):
        bits.update(table.tobytes())
    for program, graph, processes in [
        (ring_attention(10, jitter, 8 * MiB, steps=5), two_level(10), []),
        (ring_attention(10, 100 * us, 8 * MiB, steps=5), two_level(10), [faults]),
        (all_at_once(10), two_level(10), [faults]),
        (all_at_once(6), star(6), []),
        (all_at_once(16), dgx_h100(2, partial(fat_tree, leaf=4, oversubscription=2)), []),  # hashed routes
        (all_at_once(10, weight=np.arange(1, 11) * 12345678901), two_level(10), [faults]),
    ]:
        spans = run(freeze(program, Network(graph)), processes=processes)
        for array in (spans.start, spans.end, spans.link_bytes):
            bits.update(array.tobytes())
    return bits.hexdigest()


def test_compiled_and_uncompiled_runs_have_the_same_bits():
    root = Path(__file__).resolve().parents[2]
    code = "from sim.step import step; from tests.sim.test_compiled import digest;print(type(step).__name__, digest())"
    uncompiled = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(root)},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert uncompiled.stderr == ""
    assert uncompiled.stdout.split() == ["function", digest()]


def test_where_nothing_can_be_kept_the_engine_is_compiled_all_the_same(monkeypatch):
    njit = jit._njit

    def read_only(**options):
        def decorate(function):
            if options.pop("cache", False):
                raise RuntimeError("cannot cache function: no locator available")
            return njit(**options)(function)

        return decorate

    monkeypatch.setattr(jit, "_njit", read_only)

    assert jit.compiled(lambda x: 2 * x)(3) == 6
