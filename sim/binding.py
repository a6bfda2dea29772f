"""Binding: what the GPUs' time goes to: arithmetic, their memory, or launches."""

from __future__ import annotations

import numpy as np

from algorithms.ir.schedule import Op, Schedule
from algorithms.ops import is_free
from sim.costs import Machine

BINDS = ("compute", "memory", "launches")
OPS, RANKS = 256, 64  # looked at: what most of the time goes to needs no more


def seconds_by(schedule: Schedule, machine: Machine) -> dict[str, float]:
    """Seconds of the average rank's compute stream by what binds; of many ops, or ranks, only a sample's."""
    mesh = schedule.mesh
    ops = [op for op in schedule.ops if op.stream is None and not is_free(op)]
    ranks = np.arange(mesh.size)
    if not machine.differs:
        ranks = ranks[_step(len(ranks), RANKS)]
    coords = dict(zip(mesh.names, np.unravel_index(ranks, mesh.shape), strict=True))

    def parts(op: Op) -> list[float]:
        launch, arithmetic, memory = machine.parts(op, schedule.problem, coords, ranks.shape)
        is_memory = memory > arithmetic
        shares = (np.where(is_memory, 0.0, arithmetic), np.where(is_memory, memory, 0.0), launch)
        return [float(np.mean(share)) for share in shares]

    found = np.sum([parts(op) for op in ops[_step(len(ops), OPS)]] or [[0.0] * len(BINDS)], axis=0)
    return dict(zip(BINDS, map(float, found), strict=True))


def _step(count: int, most: int) -> slice:
    """Every k-th, so that about `most` are left; k is odd, as kinds of op, and of rank, take turns."""
    return slice(None, None, count // most | 1)


def binding(schedule: Schedule, machine: Machine) -> str:
    """What most of the GPUs' time goes to."""
    seconds = seconds_by(schedule, machine)
    return max(BINDS, key=lambda binds: seconds[binds])
