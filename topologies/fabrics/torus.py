"""A torus: a router a machine, each cabled to the next and the last in every dimension.

router0.0 -- router1.0 -- router2.0 -- (router0.0)
    |            |            |
router0.1 -- router1.1 -- router2.1 -- (router0.1)        all NICs of machine x + X*y are on router x.y
    |            |            |
(0.0)        (1.0)        (2.0)
"""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from topologies.fabrics import ratio
from topologies.links import cables
from topologies.nics import Network
from topologies.units import in_range

if TYPE_CHECKING:
    import networkx as nx

MOST_DIMENSIONS = 8


def torus(
    graph: "nx.DiGraph",
    nics: Sequence[Sequence[str]],
    network: Network,
    *,
    dims: int | None = None,
    x: int | None = None,
    y: int | None = None,
    z: int | None = None,
    width: float = 1.0,
) -> None:
    """Join machines by a torus of routers, one a machine.

    Two routers of a dimension are joined by one cable, as in a mesh; of more, the last is joined to the first.
    A flow takes the first of its shortest paths unless another routing is asked for.

    Args:
        graph, nics, network: as topologies.fabrics.join has them.
        dims: dimensions; as many as sizes are given, or else 3.
        x, y, z: routers along the first three; what is not given is chosen as nearly equal as the machines allow.
        width: bytes/s between two routers, over those of a NIC.
    Raises:
        ValueError: sizes that do not hold the machines, or a number out of range.
    References:
        Dally, Towles. Principles and Practices of Interconnection Networks. 2004, chapter 5: k-ary n-cubes.
    """
    sizes = _sizes(len(nics), dims, (x, y, z))
    link = network.between(ratio(width, "width of torus"))
    routers = [_name(place) for place in _places(sizes)]
    graph.add_nodes_from(routers, kind="switch")
    near = ((nic, router) for machine, router in zip(nics, routers, strict=True) for nic in machine)
    cables(graph, near, network.port())
    cables(graph, _cables(sizes), link)
    network.account(graph, f"a cable between two routers carries what {width:g} NICs do")
    shape = " x ".join(map(str, sizes))
    graph.graph["assumptions"].append(f"fabric: {shape} routers, one a machine, in the order of the machines, x first")


def _sizes(machines: int, dims: int | None, given: Sequence[int | None]) -> list[int]:
    """Return the routers along each dimension.

    Raises:
        ValueError: there is no such torus.
    """
    count = sum(size is not None for size in given)
    sizes = [in_range(size, f"{'xyz'[k]} of torus") for k, size in enumerate(given) if size is not None]
    if any(size is None for size in given[:count]):
        raise ValueError("torus takes x, or x and y, or x, y and z: here is one without those before it")
    dims = in_range((count or 3) if dims is None else dims, "dims of torus", maximum=MOST_DIMENSIONS)
    if dims < count:
        raise ValueError(f"torus of dims={dims} has {count} sizes given")
    rest, free = machines // math.prod(sizes), dims - count
    sizes += _parts(max(1, rest), free)
    if math.prod(sizes) != machines:
        raise ValueError(f"torus of {' x '.join(map(str, sizes))} has {math.prod(sizes)} routers: here are {machines}")
    return sizes


def _parts(number: int, count: int) -> list[int]:
    """Return a number as a product of so many, as nearly equal as divisors allow, the largest first."""
    parts: list[int] = []
    for left in range(count, 0, -1):
        root = round(number ** (1 / left))
        root += root**left < number  # the least whole number whose power is not below
        parts.append(next(d for d in range(max(1, root), number + 1) if number % d == 0))
        number //= parts[-1]
    return parts


def _places(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield every place, x the fastest."""
    for place in product(*map(range, reversed(sizes))):
        yield place[::-1]


def _cables(sizes: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Yield the ends of every cable."""
    for place in _places(sizes):
        for k, size in enumerate(sizes):
            if place[k] + 1 < size or size > 2:
                yield _name(place), _name((*place[:k], (place[k] + 1) % size, *place[k + 1 :]))


def _name(place: Sequence[int]) -> str:
    """Name a router."""
    return "router" + ".".join(map(str, place))
