"""Placement: which GPU runs which rank, by the machines and rails of the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import networkx as nx
import numpy as np

from algorithms import unknown
from sim.roads import machines_of

NAMES = ("identity", "node", "rail", "snake", "shuffle:SEED", "list:GPU,GPU,...")
Machines = list[list[int]]  # the GPUs of each machine, in the order of their ranks


def placed(text: str, graph: nx.DiGraph, ranks: int) -> tuple[int, ...]:
    """Return the GPU (its `rank` in the graph) of each of a job's ranks.

    Args:
        text: identity: rank r on GPU r. node: machine after machine. rail: rail after rail, so that ranks side by
            side sit on one rail of different machines. snake: machine after machine, every second one backwards, so
            that the ranks at a seam share a rail. shuffle:SEED: drawn. list:0,8,1,9: as listed.
        ranks: how many are placed; where the cluster has more GPUs, the first of the order are used.
    Raises:
        ValueError: no such placement, a GPU named twice or one that does not exist, or too few named.
    """
    name, colon, more = text.partition(":")
    if name == "list" and colon:
        return _listed(more, graph, ranks)
    if name == "shuffle" and colon:
        return tuple(_shuffled(more, sum(map(len, machines(graph))))[:ranks])
    if text not in ORDERS:
        raise ValueError(unknown("placement", text, NAMES))
    return tuple(ORDERS[text](graph)[:ranks])


def machines(graph: nx.DiGraph) -> Machines:
    """Return the GPUs of each machine, machines in the order of their first GPU."""
    found: dict[int, list[int]] = {}
    ranks: list[int | None] = [rank for _, rank in graph.nodes(data="rank")]
    gpus = [(rank, of) for rank, of in zip(ranks, machines_of(graph).tolist(), strict=True) if rank is not None]
    for rank, machine in sorted(gpus):
        found.setdefault(machine, []).append(rank)
    return list(found.values())


def _identity(graph: nx.DiGraph) -> list[int]:
    return sorted(rank for _, rank in graph.nodes(data="rank") if rank is not None)


def _node(graph: nx.DiGraph) -> list[int]:
    return list(chain.from_iterable(machines(graph)))


def _snake(graph: nx.DiGraph) -> list[int]:
    return [gpu for k, row in enumerate(machines(graph)) for gpu in (row[::-1] if k % 2 else row)]


def _rail(graph: nx.DiGraph) -> list[int]:
    rails = _rails(graph)
    ordered = [(rails[gpu], machine, gpu) for machine, row in enumerate(machines(graph)) for gpu in row]
    return [gpu for _, _, gpu in sorted(ordered)]


def _rails(graph: nx.DiGraph) -> dict[int, int]:
    """The number of each GPU's rail: of the switch that its NIC, and no other of its machine, is cabled to.

    Where several NICs of a machine share a switch, or there are none, it is the GPU's place in the machine.
    """
    names = {data["rank"]: name for name, data in graph.nodes.items() if data.get("rank") is not None}
    numbers: dict[object, int] = {}
    rails = {}
    for row in machines(graph):
        switches = [_switch(graph, graph.nodes[names[gpu]].get("nic")) for gpu in row]
        shared = None in switches or len(set(switches)) < len(row)
        for place, (gpu, switch) in enumerate(zip(row, switches, strict=True)):
            rails[gpu] = numbers.setdefault(place if shared else switch, len(numbers))
    return rails


def _switch(graph: nx.DiGraph, nic: str | None) -> str | None:
    """The switch that a NIC is cabled to; None without one."""
    return next((n for n in graph.successors(nic) if graph.nodes[n].get("kind") == "switch"), None) if nic else None


ORDERS: dict[str, Callable[[nx.DiGraph], list[int]]] = {
    "identity": _identity,
    "node": _node,
    "rail": _rail,
    "snake": _snake,
}


def _shuffled(seed: str, gpus: int) -> list[int]:
    if not seed.isdecimal():
        raise ValueError(f"placement shuffle takes a seed in plain digits, as shuffle:1, got {seed!r}")
    order: list[int] = np.random.default_rng(int(seed)).permutation(gpus).tolist()
    return order


def _listed(text: str, graph: nx.DiGraph, ranks: int) -> tuple[int, ...]:
    gpus = sum(map(len, machines(graph)))
    named = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in named):
        wrong = next(part for part in named if not part.isdecimal())
        raise ValueError(f"placement list takes GPU numbers separated by commas, got {wrong!r}")
    listed = [int(part) for part in named]
    first: dict[int, int] = {}
    for rank, gpu in enumerate(listed):
        if gpu >= gpus:
            raise ValueError(f"placement names GPU {gpu}: cluster {graph.graph.get('name')} has GPUs 0 to {gpus - 1}")
        if gpu in first:
            raise ValueError(f"placement names a GPU once: ranks {first[gpu]} and {rank} both have GPU {gpu}")
        first[gpu] = rank
    if len(listed) != ranks:
        raise ValueError(f"placement lists {len(listed)} GPUs: the job has {ranks} ranks")
    return tuple(listed)


def describe(text: str, gpus: Sequence[str], shown: int = 4) -> str:
    """Say where the ranks run: `rank r on GPU r`, or a placement's name and its first GPUs."""
    if text == "identity":
        return "rank r on GPU r"
    more = ", ..." if len(gpus) > shown else ""
    return f"placed by {text.partition(':')[0] if text.startswith('list') else text}: {', '.join(gpus[:shown])}{more}"
