"""The GPUs of a cluster that a run was on."""

from __future__ import annotations

import networkx as nx

from sim.calibration.runs import Run
from sim.islands import islands
from sim.network import Network


def placement(graph: nx.DiGraph, run: Run) -> list[int] | None:
    """Return the GPU of each rank of a run, None where it is on all.

    Of fewer, those of several hosts are spread over as many islands (machines, racks) evenly, and so are those of more
    ranks than an island has; a pair of which nothing is said is on two islands where there are two, as links between
    machines are what pairs are measured for.

    Raises:
        ValueError: the cluster has too few GPUs.
    """
    network = Network(graph)
    if run.ranks > network.ranks:
        raise ValueError(
            f"{run.file}: {run.name}: cluster {network.name} has {network.ranks} GPUs; say --nodes or another --cluster"
        )
    return None if run.ranks == network.ranks else _chosen(run, islands(network, graph))


def _chosen(run: Run, parts: list[list[int]]) -> list[int]:
    """Return the ranks of the GPUs that a run is taken to have been on."""
    if run.devices and max(run.devices) < len(parts[0]) and run.devices[0] != run.devices[1]:
        return [parts[0][place] for place in run.devices]
    wanted = run.nodes or 1
    if run.test in ("bw", "bibw", "latency") and run.nodes is None:
        wanted = 2
    least = -(-run.ranks // len(parts[0]))
    for over in (wanted, least):
        each, rest = divmod(run.ranks, over)
        if over <= len(parts) and not rest and each <= min(map(len, parts[:over])):
            return [rank for some in parts[:over] for rank in some[:each]]
    return [rank for some in parts for rank in some][: run.ranks]
