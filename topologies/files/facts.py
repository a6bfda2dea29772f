"""What a file says of a machine, of a network, or of both; nothing here was assumed.

A reader turns a text into one of these; what the text does not say stays None. Assumptions are made later, in one
place (topologies.files.assembly), and each is listed with its reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx as nx

CLASSES = ("PIX", "PXB", "PHB", "NODE", "SYS")  # how two devices of a machine meet, nearest first


@dataclass(frozen=True)
class Accelerator:
    """One GPU as a file describes it.

    Attributes:
        index: its number on the machine, as printed.
        model: the maker's name, as printed.
        bus: PCI bus id, lower case.
        numa: NUMA node of the CPU beside it.
        ports: bytes/s in one direction of each NVLink or xGMI port; 0.0 for one that is inactive; None: not said.
    """

    index: int
    model: str | None = None
    bus: str | None = None
    numa: int | None = None
    ports: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Port:
    """One NIC as a file describes it.

    Attributes:
        name: as printed, such as mlx5_0 or NIC0.
        bandwidth: bytes/s in one direction.
        bus, numa: as of an Accelerator.
        guid: of the card or of its port, lower case, without 0x and leading zeros.
        card: what it is by its PCI ids, as topologies.files.text.pci.NICS has it.
    """

    name: str
    bandwidth: float | None = None
    bus: str | None = None
    numa: int | None = None
    guid: str | None = None
    card: str | None = None


@dataclass(frozen=True)
class MachineFacts:
    """What one file says of one machine. Devices are called gpu<index> and by the name of a Port.

    Attributes:
        file: where it was read.
        format: what was read, such as `nvidia-smi topo -m`.
        gpus: in the order printed. nics: likewise.
        links: pair of GPUs, sorted by index -> number of NVLinks (or xGMI links) between them, through a switch or not.
        link_kind: nvlink or xgmi.
        link_bandwidth: bytes/s of one of these links in one direction.
        switched: whether they go through switches; None: not said.
        near: pair of devices, both ways round -> one of CLASSES.
        tree: the PCIe tree with its devices, where a file has one: an nx.DiGraph of nodes of kind cpu, pcie, gpu, nic
            and links of kind pcie and socket, both ways; a link's bandwidth is None where the file does not say it.
        cpu: vendor, family and model of its CPUs, as in GenuineIntel, 6, 143.
        peer_to_peer: whether GPUs may read each other's memory over PCIe; None: not said.
        notes: what was mended, skipped or is odd about the text, one line each.
    """

    file: str
    format: str
    gpus: tuple[Accelerator, ...]
    nics: tuple[Port, ...] = ()
    links: Mapping[tuple[int, int], int] = field(default_factory=dict)
    link_kind: str = "nvlink"
    link_bandwidth: float | None = None
    switched: bool | None = None
    near: Mapping[tuple[str, str], str] = field(default_factory=dict)
    tree: "nx.DiGraph | None" = None
    cpu: tuple[str, int, int] | None = None
    peer_to_peer: bool | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cable:
    """A cable between two ports of a network: the devices it joins, bytes/s in one direction, and how that was written.

    expected is the bytes/s of other cables of its kind where this one trained down, None where it did not.
    """

    a: str
    b: str
    bandwidth: float | None
    text: str
    expected: float | None = None


@dataclass(frozen=True)
class NetworkFacts:
    """What one file says of the network between machines.

    Attributes:
        file, format, notes: as of MachineFacts.
        switches: names.
        hosts: host -> its NICs, in the order of their names; what shows as a host but is none (an aggregation node)
            is left out, with a note.
        cables: one a cable, not one a direction; a NIC is called host/name.
    """

    file: str
    format: str
    switches: tuple[str, ...]
    hosts: Mapping[str, tuple[Port, ...]]
    cables: tuple[Cable, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClusterFacts:
    """A whole cluster: its graph, under the laws but for what the text leaves out; file, format, notes as above."""

    file: str
    format: str
    graph: "nx.DiGraph"
    notes: tuple[str, ...] = ()


Facts = MachineFacts | NetworkFacts | ClusterFacts


class FileError(ValueError):
    """A file cannot be used; the message is one line: the file, the place, what is missing or wrong."""

    def __init__(self, file: str, wrong: str, line: int | None = None) -> None:
        file = file if file and file.isprintable() else repr(file)
        super().__init__(f"{file}{f', line {line}' if line else ''}: {wrong}")
