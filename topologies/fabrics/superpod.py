"""Rail-optimised leaves and spines, unit by unit: NIC i of every machine of a unit goes to leaf i of that unit.

spine0   spine1     ...     under 64 leaves; beyond, pods of 32 leaves with spines of their own, under cores
  | \\  \\ /  / |
unit0/leaf0 .. unit0/leaf7   unit1/leaf0 ..
  |                          32 machines a unit, a NIC of each to every leaf
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from topologies.fabrics import MOST, alike, ratio, uplinks
from topologies.links import cables
from topologies.nics import Network
from topologies.units import in_range

if TYPE_CHECKING:
    import networkx as nx

SUPERPOD_SOURCE = (
    "https://docs.nvidia.com/dgx-superpod/reference-architecture-scalable-infrastructure-b200/latest/"
    "dgx-superpod-architecture.html (32 nodes a unit, NIC i to leaf i, 64-port switches; the port split is derived)"
)


class Shape(NamedTuple):
    """How many there are of what.

    Attributes:
        rails: leaves of a unit. units: of them. up: uplinks of a leaf, each as fast as a NIC.
        pods: of leaves, 1 with two tiers. pod: leaves of one. spines: of one.
        cores: above each spine, 0 with two tiers.
        width, core_width: cables between a leaf and a spine, and between a spine and a core, each as fast as a NIC.
    """

    rails: int
    units: int
    up: int
    pods: int
    pod: int
    spines: int
    cores: int
    width: int
    core_width: int


def superpod(
    graph: "nx.DiGraph",
    nics: Sequence[Sequence[str]],
    network: Network,
    *,
    unit: int = 32,
    oversubscription: float = 1.0,
    ports: int = 64,
) -> None:
    """Join machines by rail-optimised leaves and spines, in units as in a DGX SuperPOD.

    There are as few spines, and cores where 64 leaves are too few, as have the ports and take as many cables from each
    switch below. As these are equal ways up, routing matters: hashed ECMP, unless another is asked for.

    Args:
        graph, nics, network: as topologies.fabrics.join has them; each machine has as many NICs.
        unit: machines of a unit; each of its leaves has as many NICs.
        oversubscription: bytes/s of a leaf's NICs together, over those of its uplinks; above the leaves nothing blocks.
        ports: links that a switch has room for.
    Raises:
        ValueError: a number out of range, more NICs than there is room for, or machines that differ in their NICs.
    References:
        https://docs.nvidia.com/dgx-superpod/reference-architecture-scalable-infrastructure-b200/latest/
        dgx-superpod-architecture.html: 32 nodes a unit, NIC i of each to leaf i, 64-port switches; 128 nodes have 32
        leaves and 16 spines, 1,024 nodes 256 leaves, 256 spines and 128 cores.
    """
    shape = _shape(len(nics), alike(nics, "superpod"), unit, oversubscription, ports)
    ups = list(_cables(shape))
    graph.add_nodes_from((_leaf(shape, k) for k in range(shape.units * shape.rails)), kind="switch")
    graph.add_nodes_from((spine for _, spine in ups), kind="switch")
    nic_cables = ((nic, f"unit{m // unit}/leaf{i}") for m, machine in enumerate(nics) for i, nic in enumerate(machine))
    cables(graph, nic_cables, network.port())
    cables(graph, ups, network.between(shape.width))
    if shape.cores:
        tops = list(_core_cables(shape))
        graph.add_nodes_from((core for _, core in tops), kind="switch")
        cables(graph, tops, network.between(shape.core_width))
    graph.graph["routing"] = "ecmp"
    _account(graph, network, shape, unit, oversubscription, ports)


def _shape(machines: int, rails: int, unit: int, oversubscription: float, ports: int) -> Shape:
    """Work out how many switches there are.

    Raises:
        ValueError: there is no such network.
    """
    ratio(oversubscription, "oversubscription of superpod")
    in_range(ports, "ports of superpod", 2, int(MOST))
    in_range(unit, "unit of superpod", maximum=int(MOST))
    up = uplinks("superpod", "unit", unit, oversubscription)
    if unit + up > ports:
        raise ValueError(f"a leaf of superpod has unit={unit} NICs and {up} uplinks: a switch has ports={ports}")
    units = -(-machines // unit)
    leaves = units * rails
    if leaves <= ports:
        spines = _divisor(up, leaves * up / ports)
        return Shape(rails, units, up, 1, leaves, spines, 0, up // spines, 0)
    half = ports // 2
    pods = -(-leaves // half)
    if pods > ports:
        most = ports * half // rails * unit
        raise ValueError(f"superpod of unit={unit}, ports={ports} has room for {most} machines: here are {machines}")
    cores = _divisor(half, pods * half / ports)
    return Shape(rails, units, up, pods, half, up, cores, 1, half // cores)


def _divisor(number: int, least: float) -> int:
    """Return the least divisor of a number that is not below `least`, which is not above the number."""
    return next(d for d in range(1, number + 1) if number % d == 0 and d >= least)


def _leaf(shape: Shape, number: int) -> str:
    """Name a leaf; they are counted unit by unit."""
    return f"unit{number // shape.rails}/leaf{number % shape.rails}"


def _spine(shape: Shape, pod: int, spine: int) -> str:
    """Name a spine."""
    return f"pod{pod}/spine{spine}" if shape.cores else f"spine{spine}"


def _cables(shape: Shape) -> Iterator[tuple[str, str]]:
    """Yield leaf and spine of every cable between two; several side by side are one, as wide."""
    for leaf in range(shape.units * shape.rails):
        for spine in range(shape.spines):
            yield _leaf(shape, leaf), _spine(shape, leaf // shape.pod, spine)


def _core_cables(shape: Shape) -> Iterator[tuple[str, str]]:
    """Yield spine and core of every cable between two: spine s of each pod is below every core s.*."""
    for pod in range(shape.pods):
        for spine in range(shape.spines):
            for core in range(shape.cores):
                yield _spine(shape, pod, spine), f"core{spine}.{core}"


def _account(
    graph: "nx.DiGraph", network: Network, shape: Shape, unit: int, oversubscription: float, ports: int
) -> None:
    """State where the numbers come from, and what the network looks like."""
    share = "what" if oversubscription == 1 else f"1/{oversubscription:g} of what"
    network.account(graph, f"a leaf's {shape.up} uplinks carry together {share} {unit} NICs do")
    if (unit, ports) == (32, 64):
        graph.graph["sources"]["fabric.units"] = SUPERPOD_SOURCE
    pods = f" in each of {shape.pods} pods of {shape.pod} leaves, {shape.cores} cores above each" if shape.cores else ""
    graph.graph["assumptions"].append(
        f"fabric: {shape.units} units of {unit} machines and {shape.rails} leaves, {shape.spines} spines{pods}; "
        "machines fill unit after unit"
    )
