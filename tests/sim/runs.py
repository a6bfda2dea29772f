"""Runs as a machine might have measured them, of ranks that do one thing at a time."""

from dataclasses import replace

import numpy as np

from algorithms import find
from algorithms.ir import Attention, Mesh
from algorithms.ir.order import steps
from algorithms.ir.timeline import Timeline, lines
from sim.own_times import WAITED, last_of
from tests.sim.graphs import us

PROBLEM = Attention(4, 4, 16, 256, 256, mask="causal", layout="zigzag", dtype="float64", state_dtype="float64")


def drawn(schedule, rng, ranks, meets=WAITED):
    """A run with the waits it noted, and what each of its lines took itself."""
    ops = len(schedule.ops)
    start, end, waited = np.zeros((3, ops, ranks))
    took = rng.uniform(1, 50, (2, ops, ranks)) * us
    now, posted = np.zeros(ranks), {}
    for action, op in steps(schedule):
        if action == "run":
            start[op.id], now = now, now + took[0, op.id]
            waited[op.id] = now
        elif action == "post":
            start[op.id], now = now, now + took[1, op.id]
            posted[op.id] = now
        else:
            waited[op.id] = now
            ready = now if meets == WAITED else posted[op.id]
            now = np.maximum(now, last_of(op, schedule.mesh, ready)) + took[0, op.id]
        if action != "post":
            end[op.id] = now
    timeline = Timeline(
        clock="measured",
        ops=lines(schedule),
        start=start,
        end=end,
        sent=np.zeros((ops, ranks), np.int64),
        busy=np.zeros(ranks),
        peak=np.zeros(ranks, np.int64),
        makespan=float(end.max()),
    )
    return timeline, waited, took


def measured(name="ring", seed=1, problem=PROBLEM, **axes):
    """A timeline as `ringloom-run time` writes it."""
    mesh = Mesh(**(axes or {"ring": 2}))
    schedule = find(name)[problem.phase](problem, mesh)
    timeline, waited, _ = drawn(schedule, np.random.default_rng(seed), mesh.size)
    about = {
        "ways": "native",
        "kernel": "numba",
        "schedule": {"algorithm": name, "mesh": dict(mesh.axes), "problem": problem.describe()},
        "environment": {"hosts": ["here"], "cpu": "one of two cores", "mpi": "MPI 1.0", "date": "2026-11-30"},
        "runs": [timeline.makespan * x for x in (0.9, 1.0, 1.2)],
        "waited": waited.tolist(),
        "spent": (timeline.end - timeline.start).tolist(),
    }
    return replace(timeline, about=about)
