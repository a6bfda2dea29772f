"""Detours: the routes of a program's flows around links that are down.

A detour passes through no more GPUs than the route it stands in for: a GPU forwards nothing for others, unless the
graph has no switch at all. A flow that has lost its NIC has no detour unless the graph says that the NIC is `bonded`:
communication libraries end the job then (https://github.com/NVIDIA/nccl/issues/998).
"""

from __future__ import annotations

from typing import NamedTuple

import networkx as nx
import numpy as np

from sim.network import Network
from sim.program import Frozen
from sim.state import PERMUTE, Bools, Floats, Ints, Longs


class NoPathError(ValueError):
    """A flow has no path left; the message names it."""


class Routes(NamedTuple):
    """Where each flow goes. A flow that is lost keeps its route, on which it stands still."""

    route: Ints  # [flows, hops]
    latency: Floats  # [flows] seconds
    lost: Bools  # [flows]
    down: frozenset[int]


class Detours:
    """The routes of one program on one cluster, for any set of links that are down."""

    def __init__(self, frozen: Frozen, graph: nx.DiGraph, network: Network) -> None:
        self.frozen, self.graph, self.network = frozen, graph, network
        self.has_switch = any(
            kind in ("switch", "nvswitch", "nic", "pcie", "cpu") for _, kind in graph.nodes(data="kind")
        )
        tails = np.array([graph.nodes[tail].get("rank") is not None for tail, _ in network.links] + [False])
        self._tail_is_gpu = tails

    def around(self, down: frozenset[int]) -> Routes:
        """Return the routes while `down` carries nothing."""
        plan = self.frozen.bare
        route, lost = plan.route, np.zeros(len(plan.route), np.bool_)
        hit = np.flatnonzero(np.isin(plan.route, list(down)).any(1)) if down else np.zeros(0, np.int64)
        if len(hit) == 0:
            return Routes(route, plan.latency, lost, down)
        table = self._searched(hit, down)
        cut_off = [self.lost_nic(int(flow), down) is not None for flow in hit]
        lost[hit] = (table[:, 0] == self.network.pad) | (self._passed(table) > self._allowed(hit)) | cut_off
        kept = ~lost[hit]
        width = max(route.shape[1], table.shape[1])
        route = widened(route, width, self.network.pad).copy()
        route[hit[kept]] = widened(table, width, self.network.pad)[kept]
        return Routes(route, self.network.latency[route].sum(axis=1), lost, down)

    def _searched(self, hit: Longs, down: frozenset[int]) -> Longs:
        """The best paths of flows without those links, `pad` where there is none."""
        rest = self.graph.copy()
        rest.remove_edges_from([self.network.links[k] for k in down])
        ranks = {gpu: self.graph.nodes[gpu]["rank"] for gpu in self.network.gpus}
        other = Network(rest, list(ranks.values()), routing=self.network.routing)
        numbers = np.array([*(self.network.link(*link) for link in other.links), self.network.pad], np.int64)
        sender, receiver = hit % self.frozen.ranks, self.frozen.bare.dst.reshape(-1)[hit]
        return numbers[other.reach(sender, receiver)]

    def _passed(self, route: Longs | Ints) -> Longs:
        """GPUs that routes pass through."""
        return np.asarray(self._tail_is_gpu[route[:, 1:]].sum(axis=1), np.int64)

    def _allowed(self, hit: Longs) -> Longs:
        """GPUs that detours may pass through."""
        here = self._passed(self.frozen.bare.route[hit])
        return here if self.has_switch else np.full_like(here, len(self.network.links))

    def lost_nic(self, flow: int, down: frozenset[int]) -> str | None:
        """The NIC on a flow's route, not bonded, that no cable joins to the network any more."""
        links = [int(k) for k in self.frozen.bare.route[flow] if k != self.network.pad]
        nodes = [self.network.links[k][0] for k in links] + [self.network.links[links[-1]][1]]
        for node in nodes:
            ports = [self.network.link(*edge) for edge in self.graph.out_edges(node) if self._is_port(edge)]
            if ports and down.issuperset(ports) and not self.graph.nodes[node].get("bonded"):
                return str(node)
        return None

    def _is_port(self, edge: tuple[str, str]) -> bool:
        """Whether a link leads from a NIC, or a GPU with a port of its own, into the network."""
        kind = self.graph.nodes[edge[0]].get("kind")
        return kind in ("nic", "gpu") and self.graph.edges[edge].get("kind") == "nic"

    def error(self, flow: int, down: frozenset[int], op: int | None = None) -> NoPathError:
        """Say which flow has no path, and why."""
        ranks, plan = self.frozen.ranks, self.frozen.bare
        sender, receiver = flow % ranks, int(plan.dst.reshape(-1)[flow])
        op = self.user(flow) if op is None else op
        nic = self.lost_nic(flow, down)
        link = next(int(k) for k in plan.route[flow] if int(k) in down)
        why = f"link {' -> '.join(map(str, self.network.links[link]))} is down"
        if nic is not None:
            why = f"{nic} has lost the network and is not bonded, which ends a job"
        a, b = self.network.gpus[sender], self.network.gpus[receiver]
        named = self.frozen.name(op) if op is not None else "a flow"
        return NoPathError(f"{named} has no path from rank {sender} ({a}) to rank {receiver} ({b}): {why}")

    def user(self, flow: int) -> int | None:
        """The first op that sends something as this flow."""
        plan, (pattern, sender) = self.frozen.bare, divmod(flow, self.frozen.ranks)
        for op in np.flatnonzero((plan.kind == PERMUTE) & (plan.pattern == pattern)):
            if np.broadcast_to(self.frozen.rows[plan.row[op]].at(), self.frozen.ranks)[sender] > 0:
                return int(op)
        return None


def widened(route: Ints | Longs, width: int, pad: int) -> Ints:
    """A table of routes with `width` hops; the same, where it has as many."""
    more = width - route.shape[1]
    if more == 0 and route.dtype == np.int32:
        return np.asarray(route, np.int32)
    return np.ascontiguousarray(np.pad(route, ((0, 0), (0, more)), constant_values=pad), np.int32)
