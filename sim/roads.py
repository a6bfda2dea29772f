"""A graph as arrays for the search for routes: roads between places, and the lanes, its links, that they consist of.

Switches that are twins are one place of the search; which of them a route goes through is decided by the lanes.
"""

from typing import NamedTuple

import networkx as nx
import numpy as np

from sim.state import Bools, Floats, Longs
from sim.twins import classes

FABRIC = -1  # the machine of a node that belongs to none
PICOSECONDS = 1e12
MOST_TOLL = 1 << 20
TOLLS = {"nic": 64}  # more than the GPUs that forward on any machine: what need not leave it stays inside


class Roads(NamedTuple):
    """What is searched. Roads are sorted by tail: place n has the roads start[n]:start[n + 1]."""

    start: Longs  # [places + 1]
    tail: Longs  # [roads] the place a road leaves
    head: Longs  # [roads] the place a road enters
    picoseconds: Longs  # [roads] latency
    toll: Longs  # [places] what passing one costs
    machine: Longs  # [places] or FABRIC
    near_start: Longs  # [places + 1] place n has the roads near[near_start[n]:near_start[n + 1]]
    near: Longs  # roads into the fabric, and within a machine
    back: Longs  # [places] where all near roads from a place of the fabric lead, -1: to several, or to none
    entry_start: Longs  # [machines + 1] machine m is entered by entry[entry_start[m]:entry_start[m + 1]]
    entry: Longs  # roads into a machine from outside


class Lanes(NamedTuple):
    """The graph's nodes and links, and where these stand in the search.

    A road's lanes are sorted by the node they enter, then by the one they leave; each of these nodes has as many.
    """

    place: Longs  # [nodes]
    member: Longs  # [nodes] which of its place's nodes it is
    members: Longs  # [places]
    tail: Longs  # [links] the node a link leaves
    nic: Longs  # [nodes] the place of the NIC that goes with a GPU, -1: none is named
    door: Longs  # [nodes] the place from which PCIe enters it first, -1: none
    owner: Longs  # [places] the place of the first GPU that a NIC goes with, -1: none
    start: Longs  # [roads + 1] road r is the links link[start[r]:start[r + 1]]
    link: Longs  # [links]


def mapped(
    graph: nx.DiGraph, tail: Longs, head: Longs, latency: Floats, is_pcie: Bools, machine: Longs
) -> tuple[Roads, Lanes]:
    """Return the graph as arrays; a node's number is its place in `graph.nodes`.

    Args:
        tail, head, latency, is_pcie: [links] the nodes that each leaves and enters, its seconds, whether it is PCIe.
        machine: [nodes] as of `machines_of`.
    """
    number = {node: k for k, node in enumerate(graph.nodes)}
    picoseconds = np.round(latency * PICOSECONDS).astype(np.int64)
    place = np.array(classes(graph), np.int64)
    starts, nodes = _grouped(place, int(place.max(initial=-1)) + 1)
    member = np.empty_like(place)
    member[nodes] = np.arange(len(nodes)) - starts[place[nodes]]
    table = np.stack([place[tail], place[head], picoseconds])
    link = np.lexsort((tail, head, *table[::-1]))
    is_new = np.append(True, (np.diff(table[:, link]) != 0).any(0))[: len(link)]
    start = np.append(np.flatnonzero(is_new), len(link))
    nic = np.array([place[number[nic]] if nic in number else -1 for _, nic in graph.nodes(data="nic")], np.int64)
    door, owner = np.full(len(place), -1), np.full(len(starts) - 1, -1)
    door[head[is_pcie][::-1]] = place[tail[is_pcie][::-1]]
    gpus = np.flatnonzero(nic >= 0)[::-1]
    owner[nic[gpus]] = place[gpus]
    toll, first = tolls(graph), nodes[starts[:-1]]
    ends = table[:, link[start[:-1]]]
    roads = _roads(ends[0], ends[1], ends[2], toll[first], machine[first])
    lanes = Lanes(place, member, np.diff(starts), tail, nic, door, owner, start, link)
    return roads, lanes


def tolls(graph: nx.DiGraph) -> Longs:
    """Return what it costs to pass each node, in GPUs: its `toll`, or else 1 for a GPU, 64 for a NIC, 0 for others.

    Raises:
        ValueError: a toll that is no whole number from 0 to 2^20.
    """
    found = []
    for node, data in graph.nodes(data=True):
        toll = data.get("toll", 1 if data.get("rank") is not None else TOLLS.get(data.get("kind"), 0))
        if isinstance(toll, bool) or not isinstance(toll, int) or not 0 <= toll <= MOST_TOLL:
            raise ValueError(f"toll must be a whole number from 0 to {MOST_TOLL}: node {node} has {toll!r}")
        found.append(toll)
    return np.array(found, np.int64)


def machines_of(graph: nx.DiGraph) -> Longs:
    """Return the number of each node's `host`; a GPU that names none is a machine by itself, others are fabric."""
    numbers: dict[object, int] = {}
    machine = []
    for node, data in graph.nodes(data=True):
        host = data["host"] if "host" in data else node if data.get("rank") is not None else None
        machine.append(FABRIC if host is None else numbers.setdefault(host, len(numbers)))
    return np.array(machine, np.int64)


def _roads(tail: Longs, head: Longs, picoseconds: Longs, toll: Longs, machine: Longs) -> Roads:
    """Return roads, sorted by tail, with what the search looks up."""
    places = np.arange(len(toll) + 1)
    inside, into = machine[tail] == machine[head], machine[head]
    near = np.flatnonzero((into == FABRIC) | inside)
    entering = np.flatnonzero((into != FABRIC) & ~inside)
    entry_start, entry = _grouped(into[entering], int(machine.max(initial=FABRIC)) + 1)
    return Roads(
        start=np.searchsorted(tail, places),
        tail=tail,
        head=head,
        picoseconds=picoseconds,
        toll=toll,
        machine=machine,
        near_start=np.searchsorted(tail[near], places),
        near=near,
        back=_back(tail[near], head[near], machine),
        entry_start=entry_start,
        entry=entering[entry],
    )


def _back(tail: Longs, head: Longs, machine: Longs) -> Longs:
    """Return where all near roads from each place of the fabric lead, -1: to several places, or to none."""
    least, most = np.full(len(machine), len(machine)), np.full(len(machine), -1)
    np.minimum.at(least, tail, head)
    np.maximum.at(most, tail, head)
    return np.where((machine == FABRIC) & (least == most), most, -1)


def _grouped(group: Longs, groups: int) -> tuple[Longs, Longs]:
    """Return where each group starts in the list of items sorted by group, [groups + 1], and that list."""
    items = np.argsort(group, kind="stable")
    return np.searchsorted(group[items], np.arange(groups + 1)), items
