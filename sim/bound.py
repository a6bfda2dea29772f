"""The bound: the least time that any exact schedule could take for a problem on a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from algorithms.ir.mesh import Mesh
from algorithms.ir.pairs import count_pairs
from algorithms.ir.problem import ITEMSIZE, Attention
from algorithms.ir.tokens import Runs
from sim.roads import FABRIC
from sim.simulate import Site


class Bound(NamedTuple):
    """The least time, and the limits it is the largest of, in seconds."""

    seconds: float
    limits: Mapping[str, float]

    @property
    def what(self) -> str:
        """The limit that binds."""
        return max(self.limits, key=lambda name: self.limits[name])

    def times(self, layers: int) -> Bound:
        """The bound of that many layers, one after another."""
        return Bound(self.seconds * layers, {name: seconds * layers for name, seconds in self.limits.items()})


def visible_pairs(problem: Attention) -> int:
    """(query, key) pairs that the mask leaves, of one sequence."""
    keys = Runs(np.array([0]), np.array([problem.key_len]), 1)
    return int(count_pairs(problem.mask, problem.query_runs, keys).visible)


def flop(problem: Attention) -> tuple[float, float]:
    """Forward and backward FLOP of one layer, visible pairs only; backward is 0 unless training."""
    heads = float(problem.batch * problem.heads) * visible_pairs(problem)
    d, dv = problem.head_dim, problem.head_dim_v
    return 2 * (d + dv) * heads, 2 * (3 * d + 2 * dv) * heads if problem.phase == "train" else 0.0


def bound(problem: Attention, mesh: Mesh, site: Site) -> Bound:
    """Bound the time from below by arithmetic, memory traffic and what each rank, and each machine, must receive.

    compute: all FLOP on all GPUs, at the best rate the kernel reaches. memory: q, k, v read and out written once.
    ingress: where tokens are spread over several ranks, the average rank must receive what `least_ingress` says,
    through the links of the best-connected GPU at data-sheet bandwidth. cut: the same of machines, where the ranks of
    each sequence fill several alike; it is left out where they do not.
    """
    ranks = mesh.size
    forward, backward = flop(problem)
    rates = [
        np.broadcast_to(site.machine.best_flop_rate(problem, p), site.network.ranks)[:ranks] for p in ("fwd", "bwd")
    ]
    compute = forward / rates[0].sum() + (backward / rates[1].sum() if backward else 0.0)
    bandwidth = np.broadcast_to(site.machine.memory_bandwidth, site.network.ranks)[:ranks].sum()
    limits = {
        "compute": float(compute),
        "memory": float(least_memory(problem) / bandwidth),
        "ingress": float(least_ingress(problem, mesh) / widest_ingress(site)),
    }
    if crossing := cut(problem, mesh, site):
        limits["cut"] = crossing
    return Bound(max(limits.values()), limits)


def least_memory(problem: Attention) -> float:
    """Bytes of q, k, v and out of the whole layer."""
    rows = problem.batch * problem.query_len * problem.heads
    columns = problem.batch * problem.key_len * problem.kv_heads
    values = 0 if problem.shared_kv else problem.head_dim_v
    return float(
        rows * (problem.head_dim * ITEMSIZE[problem.dtype] + problem.head_dim_v * _out_itemsize(problem))
        + columns * (problem.head_dim + values) * ITEMSIZE[problem.kv_dtype]
    )


def least_ingress(problem: Attention, mesh: Mesh) -> float:
    """Bytes that the average rank must receive; 0 when it holds all keys of its sequences and heads.

    A query that sees a share a of the keys takes as large a share of what the other ranks hold, or is attended
    elsewhere and its row received: min(a * others, own) >= a * min(others, own). The mean of a is the share of
    pairs that the mask leaves, where queries and keys are dealt alike. Of a window, or of documents, all that a query
    sees may lie on its own rank: then nothing is known.
    """
    tp, dp = mesh.axes.get("tp", 1), mesh.axes.get("dp", 1)
    return _least_received(problem, tp, dp, mesh.size // (tp * dp))


def _least_received(problem: Attention, tp: int, dp: int, p: int) -> float:
    """Bytes that the average of p equal shares of a sequence must receive from the others."""
    if p == 1 or not problem.mask.plain:
        return 0.0
    values = 0 if problem.shared_kv else problem.head_dim_v
    keys = problem.batch // dp * max(1, problem.kv_heads // tp) * problem.key_len
    others = keys * (problem.head_dim + values) * ITEMSIZE[problem.kv_dtype] * (p - 1) / p
    own = problem.batch // dp * (problem.heads // tp) * problem.query_len / p * problem.head_dim_v
    share = visible_pairs(problem) / (problem.query_len * problem.key_len)
    return share * min(others, own * _out_itemsize(problem))


def cut(problem: Attention, mesh: Mesh, site: Site) -> float:
    """Seconds in which the average machine can receive what it must; 0 where nothing is known.

    A machine with a share of a sequence is to the others what a rank is. That is known where one sequence, with all its
    heads, is spread over all ranks, and every machine has as many of these.
    """
    network, machine = site.network, site.network.machine
    used = Counter(machine[network.node[: mesh.size]].tolist())
    if mesh.axes.get("tp", 1) * mesh.axes.get("dp", 1) > 1 or len(used) == 1 or len(set(used.values())) > 1:
        return 0.0
    left, entered = machine[network.tail], machine[network.head]
    crosses = (left != entered) & (entered != FABRIC)
    into = np.bincount(entered[crosses], network.bandwidth[crosses], minlength=max(used) + 1)
    return _least_received(problem, 1, 1, len(used)) / float(into[list(used)].max())


def _out_itemsize(problem: Attention) -> int:
    """Bytes of an element of the output: a state that is narrower than the activations is what is written and sent."""
    return min(ITEMSIZE[problem.dtype], ITEMSIZE[problem.state_dtype])


def widest_ingress(site: Site) -> float:
    """Bytes/s into the best-connected GPU, over all its links."""
    into = np.bincount(site.network.head, site.network.bandwidth, minlength=int(site.network.node.max()) + 1)
    return float(into[site.network.node].max()) or np.inf
