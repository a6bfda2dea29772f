"""Pictures of topologies: a drawing of its tiers, with links by bandwidth and a heat map of all pairs.

`Picture.of(graph)` gathers what is shown; `write` draws it into a file. matplotlib is imported only then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topologies.bisection import Bisection, bisection
from topologies.describe import Row, describe
from topologies.drawing.layers import Layout, layout

if TYPE_CHECKING:
    import networkx as nx

    from sim.pairs import Pairs


@dataclass(frozen=True)
class Picture:
    """What is shown of a topology: its name, GPUs, layout, pairs, bisection (None for one GPU) and rows."""

    name: str
    gpus: int
    layout: Layout
    pairs: "Pairs"
    bisection: Bisection | None
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, graph: "nx.DiGraph") -> "Picture":
        """Gather what is shown of a graph.

        Raises:
            ValueError: a number is absurd.
        """
        from sim.network import Network
        from sim.pairs import pairs

        network = Network(graph)
        found = pairs(network)
        return cls(network.name, network.ranks, layout(graph), found, bisection(graph), tuple(describe(graph)))


def write(picture: Picture, path: str, form: str) -> None:
    """Draw a picture into a file, which takes its name only when all of it is written.

    Args:
        form: png, svg or html.
    Raises:
        ValueError: matplotlib is missing, or the file cannot be written.
    """
    from algorithms.ir.timeline import whole

    data = _renderer(form)(picture)
    with whole(path) as file:
        file.buffer.write(data)


def _renderer(form: str) -> Callable[[Picture], bytes]:
    """Return what draws a format."""
    try:
        from sim.pictures import files
    except ImportError as error:
        raise ValueError(f"--{form} needs matplotlib, which cannot be imported: {error}") from error
    return {"png": files.png, "svg": files.svg, "html": files.html}[form]
