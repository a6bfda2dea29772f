"""The PCIe tree of a machine: CPUs, bridges, GPUs and NICs, and how two of its devices meet."""

from typing import TYPE_CHECKING

from topologies.files.facts import FileError

if TYPE_CHECKING:
    import networkx as nx

MOST_CPUS = 256  # NUMA nodes


class PcieTree:
    """A tree that grows downwards from CPUs; each node but these has one link up."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._nodes: dict[str, dict[str, object]] = {}
        self._above: dict[str, tuple[str, float | None]] = {}
        self._below: dict[str, int] = {}
        self._counters = {"cpu": 0, "pcie": 0}
        self._cards: set[str] = set()  # nodes that stand for a device of several ports, not for a switch

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def cpu(self, numa: int | None, host: int | None) -> str:
        """Add a CPU (a NUMA node) and return its name: cpu<numa> where no other has it."""
        name = f"cpu{numa}"
        if numa is None or name in self._nodes:
            name = self._free("cpu")
        if sum(data["kind"] == "cpu" for data in self._nodes.values()) >= MOST_CPUS:
            raise FileError(self.file, f"holds more than {MOST_CPUS} CPUs")
        self._nodes[name] = {"kind": "cpu"} | ({} if numa is None else {"numa": numa})
        if host is not None:
            self._nodes[name]["host"] = f"host{host}"
        return name

    def bridge(self, above: str, bandwidth: float | None, bus: str) -> str:
        """Add a PCIe switch under a node, by a link of so many bytes/s, and return its name."""
        return self._hang(self._free("pcie"), "pcie", above, bandwidth, bus)

    def card(self, above: str, bandwidth: float | None, bus: str) -> str:
        """Add a device of several ports, which share its link, and return the name of what they hang under."""
        name = self.bridge(above, bandwidth, bus)
        self._cards.add(name)
        return name

    def add(self, name: str, kind: str, above: str, bandwidth: float | None, bus: str, line: int) -> int | None:
        """Add a GPU or a NIC; return the number of its host where there are several.

        Raises:
            FileError: its name is taken.
        """
        if name in self._nodes:
            raise FileError(self.file, f"two devices are called {name}", line)
        self._hang(name, kind, above, bandwidth, bus)
        host = self._nodes[name].get("host")
        return int(str(host).removeprefix("host")) if host else None

    def prune(self, bridge: str) -> None:
        """Remove a bridge under which there is nothing."""
        if not self._below.get(bridge):
            del self._nodes[bridge]
            self._below[self._above.pop(bridge)[0]] -= 1

    def whole(self) -> "nx.DiGraph":
        """Return the tree as a graph: links of kind pcie both ways, and of kind socket between the CPUs of a host."""
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_nodes_from((name, dict(data)) for name, data in self._nodes.items())
        for name, (above, bandwidth) in self._above.items():
            graph.add_edge(name, above, kind="pcie", bandwidth=bandwidth)
            graph.add_edge(above, name, kind="pcie", bandwidth=bandwidth)
        cpus = [(name, data.get("host")) for name, data in self._nodes.items() if data["kind"] == "cpu"]
        pairs = ((a, b) for a, host in cpus for b, other in cpus if a != b and host == other)
        graph.add_edges_from(pairs, kind="socket", bandwidth=None)
        return graph

    def classes(self) -> dict[tuple[str, str], str]:
        """Return how each two devices meet, both ways round, in NCCL's terms: PHB is any way through one CPU."""
        paths = {name: self._path(name) for name, data in self._nodes.items() if data["kind"] in ("gpu", "nic")}
        hosts = {name: self._nodes[name].get("host") for name in paths}
        return {(a, b): self._meeting(a, b, paths) for a in paths for b in paths if a != b and hosts[a] == hosts[b]}

    def _meeting(self, a: str, b: str, paths: dict[str, tuple[str, ...]]) -> str:
        """Return the class of two devices by the nodes above each."""
        if self._above[a][0] == self._above[b][0] in self._cards:
            return "PIX"
        above, beside = paths[a], paths[b]
        shared = sum(x == y for x, y in zip(above, beside, strict=False))
        if shared <= 1:
            return "PHB" if shared else "SYS"
        return "PIX" if len(above) == len(beside) == shared else "PXB"

    def _hang(self, name: str, kind: str, above: str, bandwidth: float | None, bus: str) -> str:
        self._nodes[name] = {"kind": kind}
        if bus:
            self._nodes[name]["bus"] = bus
        if "host" in self._nodes[above]:
            self._nodes[name]["host"] = self._nodes[above]["host"]
        self._above[name] = above, bandwidth
        self._below[above] = self._below.get(above, 0) + 1
        return name

    def _free(self, kind: str) -> str:
        while (name := f"{kind}{self._counters[kind]}") in self._nodes:
            self._counters[kind] += 1
        return name

    def _path(self, name: str) -> tuple[str, ...]:
        """Return the CPU and the switches above a device, the CPU first."""
        path: list[str] = []
        while name in self._above:
            name = self._above[name][0]
            if name not in self._cards:
                path.append(name)
        return tuple(reversed(path))
