"""Google TPUs: chips that are cabled to their neighbours in three dimensions, without a switch."""

from collections.abc import Iterable
from itertools import product

import networkx as nx

from topologies.cluster import machine
from topologies.hardware import GPUS, Gpu
from topologies.links import ICI_LINK, Link, cable
from topologies.units import in_range

Shape = tuple[int, int, int]
CUBE = 4  # chips along the edge of the block that pods are put together of
PARTS = {4: (1, 2, 2), 8: (2, 2, 2), 16: (2, 2, 4), 32: (2, 4, 4)}  # of a cube; their ends are not joined


def tpu_v4(gpus: int = 64) -> nx.DiGraph:
    """Return a slice of a TPU v4 pod: a 3D torus of chips, six links each.

    Args:
        gpus: number of chips: 4, 8, 16 or 32, a part of a cube whose ends are not joined, or a multiple of 64 up to
            4096, a torus of cubes of 4 x 4 x 4 chips, as near a cube as there is. The chip at x, y, z has rank
            (x * Y + y) * Z + z.
    Raises:
        ValueError: there is no such slice.
    References:
        https://docs.cloud.google.com/tpu/docs/v4: a torus where each dimension is a multiple of 4; 4096 chips a pod.
    """
    return _slice("tpu_v4", gpus, GPUS["TPU-v4"], 4096)


def tpu_v5p(gpus: int = 64) -> nx.DiGraph:
    """Return a slice of a TPU v5p pod: a 3D torus of chips, six links each.

    Args:
        gpus: as of tpu_v4, up to 6144.
    Raises:
        ValueError: there is no such slice.
    References:
        https://docs.cloud.google.com/tpu/docs/v5p: the shapes of slices, the largest of 96 cubes; 1200 GB/s a chip
        both ways together.
    """
    return _slice("tpu_v5p", gpus, GPUS["TPU-v5p"], 6144)


def shape(chips: int, most: int) -> Shape:
    """Return the sides of a slice of so many chips, the shortest first: as near a cube as there is.

    Raises:
        ValueError: there is no such slice.
    """
    in_range(chips, "gpus", maximum=most)
    if chips in PARTS:
        return PARTS[chips]
    cubes, rest = divmod(chips, CUBE**3)
    if rest:
        sizes = [*PARTS, *range(CUBE**3, most + 1, CUBE**3)]
        near = sorted({max((n for n in sizes if n < chips), default=4), min(n for n in sizes if n > chips)})
        raise ValueError(
            f"gpus {chips}: a TPU slice has 4, 8, 16, 32 or a multiple of 64 chips; "
            f"nearest {'is' if len(near) == 1 else 'are'} {' and '.join(map(str, near))}"
        )
    pairs = ((a, b) for a in range(1, cubes + 1) for b in range(a, cubes // a + 1))
    x, y, z = min(((a, b, cubes // (a * b)) for a, b in pairs if cubes % (a * b) == 0 and a * b * b <= cubes), key=sum)
    return CUBE * x, CUBE * y, CUBE * z


def _slice(name: str, chips: int, gpu: Gpu, most: int) -> nx.DiGraph:
    """Return a torus of chips, or a mesh where it is smaller than a cube."""
    sides = shape(chips, most)
    is_torus = chips >= CUBE**3
    graph = machine(f"{name}({chips})", gpu)
    graph.graph["assumptions"] += [
        f"gpu: a {'torus' if is_torus else 'mesh, its ends not joined,'} of {' x '.join(map(str, sides))} chips",
        f"ici.bandwidth: {gpu.recalled['link_bandwidth']}",
        ICI_LINK.of("ici.latency"),
    ]
    link = Link("ici", gpu.link_bandwidth, ICI_LINK.latency)
    for rank, place in enumerate(product(*map(range, sides))):
        graph.add_node(_chip(place), **gpu.node(rank), host="slice")
    for place in product(*map(range, sides)):
        for axis, side in enumerate(sides):
            after = [*place[:axis], (place[axis] + 1) % side, *place[axis + 1 :]]
            if is_torus or after[axis]:
                cable(graph, _chip(place), _chip(after), link)
    return graph


def _chip(place: Iterable[int]) -> str:
    """Return the name of the chip at x, y, z."""
    return f"chip{'.'.join(map(str, place))}"
