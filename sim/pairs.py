"""Bandwidth from GPU to GPU on an idle network: that of the narrowest link on the route."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.network import Network
from sim.state import Floats

MOST_GPUS = 32  # of which each is a row
MOST_MACHINES, FEW_MACHINES = 20, 8  # of more, so many are taken, evenly spaced; few of more than LARGE GPUs
LARGE = 4096


@dataclass(frozen=True)
class Pairs:
    """A matrix of bandwidths, from each row's GPUs to each column's.

    Attributes:
        rates: [n, n] bytes/s of the slowest pair; NaN where there is none, 0 where there is no path.
        names: [n] of a GPU, or of a machine. total: how many there are, n or more.
        by: "GPU" or "machine".
    """

    rates: Floats
    names: tuple[str, ...]
    total: int
    by: str

    @property
    def title(self) -> str:
        """Say what a row and a cell are."""
        taken = "" if len(self.names) == self.total else f", {len(self.names)} of {self.total}"
        return f"GPU to GPU{taken}" if self.by == "GPU" else f"machine to machine, slowest pair{taken}"


def pairs(network: Network) -> Pairs:
    """Return GPU by GPU, or machine by machine where the GPUs are many, how fast one sends to another."""
    hosts: dict[int, list[int]] = {}
    for rank, machine in enumerate(network.machine[network.node]):
        hosts.setdefault(int(machine), []).append(rank)
    by_gpu = network.ranks <= MOST_GPUS or len(hosts) in (1, network.ranks)
    groups = [[rank] for rank in range(network.ranks)] if by_gpu else list(hosts.values())
    most = MOST_MACHINES if network.ranks <= LARGE else FEW_MACHINES
    taken = _spaced(len(groups), MOST_GPUS if network.ranks <= MOST_GPUS else most)
    names = tuple(_name(network, groups[k], by_gpu) for k in taken)
    return Pairs(_slowest(network, [groups[k] for k in taken]), names, len(groups), "GPU" if by_gpu else "machine")


def _spaced(count: int, most: int) -> list[int]:
    """Return all of 0 .. count-1, or `most` of them at even distances, the first and the last among them."""
    return list(range(count)) if count <= most else [k * (count - 1) // (most - 1) for k in range(most)]


def _name(network: Network, group: list[int], by_gpu: bool) -> str:
    """Name a GPU, or the machine of some."""
    node = network.gpus[group[0]]
    return node if by_gpu else node.rpartition("/")[0] or node


def _slowest(network: Network, groups: Sequence[Sequence[int]]) -> Floats:
    """Return the least rate from a GPU of each group to another of each."""
    ranks = np.concatenate([np.array(group) for group in groups])
    group = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    source, destination = (side.reshape(-1) for side in np.meshgrid(ranks, ranks, indexing="ij"))
    rows, columns = (side.reshape(-1) for side in np.meshgrid(group, group, indexing="ij"))
    other = source != destination
    source, destination, rows, columns = source[other], destination[other], rows[other], columns[other]
    slowest = np.full((len(groups), len(groups)), np.nan)
    if len(source):
        links = network.reach(source, destination)
        rates = np.append(network.bandwidth, np.inf)[links].min(1)
        np.fmin.at(slowest, (rows, columns), np.where(np.isinf(rates), 0.0, rates))
    return slowest
