"""A cluster as the engine sees it: directed links as arrays, and static routes between ranks."""

import copy
import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import networkx as nx
import numpy as np
import numpy.typing as npt

from sim.adaptive import Fabric, adapted
from sim.bindings import bindings, through_bound
from sim.roads import machines_of, mapped
from sim.routes import paths
from sim.routing import Routing
from sim.state import Bools, Floats, Ints, Longs


class Network:
    """The links of a graph and the routes on them. A link's number is its place in `graph.edges`.

    Attributes:
        ranks: schedule ranks that are placed.
        gpus: [ranks] the node that runs each schedule rank.
        links, kinds: [links] the (tail, head) nodes and the link class of each directed link.
        bandwidth: [links] bytes per second, as the graph says.
        tail, head: [links] the numbers of these nodes, their places in `graph.nodes`; node: [ranks] of the GPUs.
        machine: [nodes] the number of each node's machine, or FABRIC.
        capacity: [links + 1] bytes per second, bandwidth x efficiency; the last, `pad`, is infinite.
        latency: [links + 1] seconds; 0 for `pad`.
        by_host: [links + 1] whether the processors at a flow's ends carry it; not `pad`.
        routing: which of its equal paths a flow takes.
    """

    def __init__(
        self,
        graph: nx.DiGraph,
        placement: Sequence[int] | None = None,
        efficiency: Mapping[str, float] | None = None,
        routing: Routing | None = None,
    ) -> None:
        """Compile `graph`.

        Args:
            placement: placement[r] is the `rank` of the GPU that runs schedule rank r; r itself if None.
            efficiency: the share of its bandwidth that a link kind reaches; 1 where not given.
            routing: the graph's own if None.

        Raises:
            ValueError: for a number that is absurd, or a placement that is not one GPU a rank.
        """
        self.name: str = graph.graph.get("name") or "without a name"
        self.links: list[tuple[str, str]] = list(graph.edges)
        cables = [data for _, _, data in graph.edges(data=True)]
        self.kinds: list[str] = [data.get("kind", "link") for data in cables]
        self.pad = len(self.links)
        share = {kind: _share(efficiency or {}, kind) for kind in dict.fromkeys(self.kinds)}
        self.bandwidth = self._numbers([data.get("bandwidth") for data in cables], "bandwidth", False)
        self.capacity = np.append(self.bandwidth * np.array([share[kind] for kind in self.kinds]), np.inf)
        self.latency = np.append(self._numbers([data.get("latency") for data in cables], "latency", True), 0.0)
        self.by_host = np.array([*(data.get("offloaded") is False for data in cables), False])
        by_rank = _gpus(graph, self.name)
        chosen = range(len(by_rank)) if placement is None else placement
        self.gpus = _placed(by_rank, chosen, self.name)
        self.ranks = len(self.gpus)
        self.routing = routing or Routing.of(graph)
        number = {node: k for k, node in enumerate(graph.nodes)}
        self.tail = np.array([number[tail] for tail, _ in self.links], np.int64)
        self.head = np.array([number[head] for _, head in self.links], np.int64)
        self.node = np.array([number[gpu] for gpu in self.gpus], np.int64)
        self.machine = machines_of(graph)
        self._group, self._bound = _groups(graph), bindings(graph)
        is_pcie = np.array([kind == "pcie" for kind in self.kinds], np.bool_)
        self._roads, self._lanes = mapped(graph, self.tail, self.head, self.latency[:-1], is_pcie, self.machine)
        self._gpu = np.array(chosen, np.int64)  # what a hash knows a rank by, wherever it is placed
        self._forget()

    def _forget(self) -> None:
        """Begin without a route."""
        self._known: Longs = np.empty(0, np.int64)  # source * ranks + destination, sorted
        self._routes: Ints = np.empty((0, 1), np.int32)  # the links of each known pair
        self._ways: Longs = np.empty(0, np.int64)  # how many equal paths each known pair has
        self._latest: tuple[Longs, Ints] = self._known, self._routes  # of pairs whose routes depend on each other

    def routed(self, routing: Routing) -> "Network":
        """Return the same network with other routes."""
        other = copy.copy(self)
        other.routing = routing
        other._forget()
        return other

    @property
    def choices(self) -> tuple[int, int]:
        """Of the pairs of ranks asked about so far, how many have equal paths, and the most that a pair has."""
        return int((self._ways > 1).sum()), int(self._ways.max(initial=1))

    @cached_property
    def _number(self) -> dict[tuple[str, str], int]:
        return {link: number for number, link in enumerate(self.links)}

    def _numbers(self, values: Sequence[object], name: str, may_be_0: bool) -> Floats:
        """Return an attribute of every link, checked."""
        if all(issubclass(kind, int | float) for kind in set(map(type, values))):
            numbers = np.array(values, np.float64)
            if (np.isfinite(numbers) & ((numbers > 0) | (may_be_0 & (numbers == 0)))).all():
                return numbers
        rule = "finite and not negative" if may_be_0 else "finite and positive"
        tail, head, wrong = next(
            (*link, value)
            for link, value in zip(self.links, values, strict=True)
            if not isinstance(value, int | float) or not 0 <= value < math.inf or not (value or may_be_0)
        )
        raise ValueError(f"{name} must be {rule}: link {tail} -> {head} has {wrong}")

    def link(self, tail: str, head: str) -> int:
        """Return the number of the directed link from `tail` to `head`."""
        if (tail, head) not in self._number:
            raise ValueError(f"no link {tail} -> {head} in cluster {self.name}")
        return self._number[tail, head]

    def route(self, source: npt.ArrayLike, destination: npt.ArrayLike) -> Ints:
        """Return the links from each source rank to each destination rank, [n, hops], `pad` behind the end.

        A rank reaches itself without a link. If adaptive, routes are those of these pairs together, and no others.

        Raises:
            ValueError: when there is no path.
        """
        pairs = np.asarray(source, np.int64) * self.ranks + np.asarray(destination, np.int64)
        wanted, place = np.unique(pairs, return_inverse=True)
        if self.routing.name == "adaptive":
            return self._adapted(wanted)[place.reshape(-1)]
        new = np.setdiff1d(wanted, self._known, assume_unique=True)
        if len(new) > 0:
            self._learn(new)
        return self._routes[np.searchsorted(self._known, wanted)[place.reshape(-1)]]

    def reach(self, source: npt.ArrayLike, destination: npt.ArrayLike) -> Ints:
        """Return the links between ranks as `route` does, but only `pad` where there is no path."""
        pairs = np.asarray(source, np.int64) * self.ranks + np.asarray(destination, np.int64)
        wanted, place = np.unique(pairs, return_inverse=True)
        table, _ = self._search(wanted)
        return np.where(table < 0, np.int32(self.pad), table)[place.reshape(-1)]

    def _search(self, pairs: Longs) -> tuple[Ints, Longs]:
        """Return the links of each pair, -1 behind the end, and how many equal paths it has; pairs are sorted."""
        source, destination = np.divmod(pairs, self.ranks)
        draws = self.routing.draws(self._gpu[source], self._gpu[destination])
        ends = self.node[source], self.node[destination]
        table, ways = paths(self._roads, self._lanes, *ends, draws)
        return through_bound(self._roads, self._lanes, self.machine, self._bound, *ends, table), ways

    def _learn(self, pairs: Longs) -> None:
        """Add the routes of new pairs, which are sorted, to the table, which stays sorted."""
        table, ways = self._found(pairs)
        if self.routing.name == "ideal" and (ways > 1).any():
            pair = self._named(pairs, ways > 1)
            raise ValueError(f"--routing ideal needs equal paths to be of equal links: not so from {pair}")
        table = self._trimmed(table)
        if len(self._known) == 0:
            self._known, self._routes, self._ways = pairs, table, ways
            return
        hops = max(self._routes.shape[1], table.shape[1])
        routes = np.concatenate([_widen(self._routes, hops, self.pad), _widen(table, hops, self.pad)])
        known = np.concatenate([self._known, pairs])
        order = np.argsort(known, kind="stable")
        self._known, self._routes = known[order], routes[order]
        self._ways = np.concatenate([self._ways, ways])[order]

    def _adapted(self, pairs: Longs) -> Ints:
        """Return the routes of pairs, which are sorted, that were chosen by each other's load."""
        if not np.array_equal(pairs, self._latest[0]):
            table, ways = self._found(pairs)
            source, destination = np.divmod(pairs, self.ranks)
            fabric = Fabric(self._roads, self._lanes, self.tail, self.head, self._group, 1 / self.capacity[:-1])
            table, ways = adapted(fabric, self.node[source], self.node[destination], table, ways)
            self._latest = pairs, self._trimmed(table)
            known = np.concatenate([self._known, pairs])
            self._known, first = np.unique(known, return_index=True)
            self._ways = np.concatenate([self._ways, ways])[first]
        return self._latest[1]

    def _found(self, pairs: Longs) -> tuple[Ints, Longs]:
        """Return what `_search` does, of pairs that all have a path.

        Raises:
            ValueError: when there is none.
        """
        source, destination = np.divmod(pairs, self.ranks)
        table, ways = self._search(pairs)
        lost = (table[:, 0] < 0) & (destination != source)
        if lost.any():
            raise ValueError(f"no path from {self._named(pairs, lost)}")
        return table, ways

    def _trimmed(self, table: Ints) -> Ints:
        """Return the links of pairs with `pad` behind the end, and as many columns as the longest needs."""
        hops = max(1, int((table >= 0).sum(1).max(initial=0)))
        return np.where(table < 0, np.int32(self.pad), table)[:, :hops]

    def _named(self, pairs: Longs, which: Bools) -> str:
        """Name the first of some pairs."""
        a, b = divmod(int(pairs[which.argmax()]), self.ranks)
        return f"rank {a} ({self.gpus[a]}) to rank {b} ({self.gpus[b]})"


def _groups(graph: nx.DiGraph) -> Longs:
    """Return the number of each switch's `group`, -1 where none is said."""
    numbers: dict[str, int] = {}
    groups = ((data.get("group"), data.get("kind") == "switch") for _, data in graph.nodes(data=True))
    return np.array(
        [numbers.setdefault(str(g), len(numbers)) if is_switch and g is not None else -1 for g, is_switch in groups],
        np.int64,
    )


def _widen(table: Ints, hops: int, pad: int) -> Ints:
    """Return `table` with `hops` columns, the new ones full of `pad`."""
    return np.pad(table, ((0, 0), (0, hops - table.shape[1])), constant_values=pad)


def _share(efficiency: Mapping[str, float], kind: str) -> float:
    """Return the share of its bandwidth that a link of `kind` reaches."""
    share = efficiency.get(kind, 1.0)
    if not (0 < share < math.inf):
        raise ValueError(f"efficiency must be positive and finite: {kind} has {share}")
    return share


def _gpus(graph: nx.DiGraph, name: str) -> list[str]:
    """Return the GPU nodes in the order of their ranks, which must be 0, 1, 2, ..."""
    ranks = {node: rank for node, rank in graph.nodes(data="rank") if rank is not None}
    gpus = sorted(ranks, key=lambda node: ranks[node])
    if not gpus:
        raise ValueError(f"cluster {name} has no GPU: no node has a rank")
    for expected, node in enumerate(gpus):
        if ranks[node] != expected:
            raise ValueError(f"GPU ranks must be 0, 1, 2, ...: {node} has {ranks[node]}, expected {expected}")
    return gpus


def _placed(gpus: list[str], placement: Sequence[int], name: str) -> list[str]:
    """Return the GPU of each schedule rank."""
    if len(placement) > len(gpus):
        raise ValueError(f"placement needs {len(placement)} GPUs: cluster {name} has {len(gpus)}")
    taken: dict[int, int] = {}
    for rank, gpu in enumerate(placement):
        if not 0 <= gpu < len(gpus):
            raise ValueError(f"placement must name GPUs 0 to {len(gpus) - 1}: rank {rank} has {gpu}")
        if gpu in taken:
            raise ValueError(f"placement must name a GPU once: ranks {taken[gpu]} and {rank} have {gpu}")
        taken[gpu] = rank
    return [gpus[gpu] for gpu in placement]
