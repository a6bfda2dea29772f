"""A topology or a fabric of the caller's own: FILE.py:NAME wherever the name of one is taken."""

import contextlib
import functools
import importlib.util
import sys
from collections.abc import Callable, Sequence
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from topologies.laws import GPU_NUMBERS, unaccounted

if TYPE_CHECKING:
    import networkx as nx

    from topologies import Topology
    from topologies.fabrics import Fabric
    from topologies.nics import Network

NUMBERS = (*GPU_NUMBERS, "bandwidth", "latency")


def load(name: str) -> "Topology":
    """Return the function NAME of FILE.py as a topology.

    What such a function may leave out of its graph is filled in: the graph's name, a link's kind ("link")
    and offloaded (True), and, for numbers without a source, the assumption that they are right.

    Raises:
        ValueError: no such file or function, or the file fails; when called, the function fails.
    """
    body = _function(name, "topology")

    @functools.wraps(body)
    def topology(*size: int, **fabric: "Fabric") -> "nx.DiGraph":
        graph = _call(body, name, size, fabric)
        _complete(graph, name, size)
        return graph

    return topology


def load_fabric(name: str) -> "Fabric":
    """Return the function NAME of FILE.py as a fabric; what it leaves out is filled in, as `load` does.

    Raises:
        ValueError: no such file or function, or the file fails; when called, the function fails.
    """
    body = _function(name, "fabric")

    @functools.wraps(body)
    def fabric(graph: "nx.DiGraph", nics: Sequence[Sequence[str]], network: "Network", **chosen: float) -> None:
        try:
            with contextlib.redirect_stdout(sys.stderr):
                body(graph, nics, network, **chosen)
        except (Exception, SystemExit) as error:
            raise ValueError(f"{name} failed on {graph.graph['name']}: {_one_line(error)}") from error
        _complete(graph, name, ())

    return fabric


def _function(name: str, what: str) -> Callable[..., Any]:
    """Return the function that FILE.py:NAME names."""
    path, _, function = name.rpartition(":") if not name.endswith(".py") else (name, "", "")
    if not function.isidentifier():
        raise ValueError(f"{name} names no function: write {path or name}:NAME")
    if not Path(path).is_file():
        raise ValueError(f"no {what} file {path!r}")
    body = vars(_run(Path(path).resolve())).get(function)
    if not callable(body):
        raise ValueError(f"no function {function!r} in {path}")
    found: Callable[..., Any] = body
    return found


@functools.cache
def _run(path: Path) -> ModuleType:
    """Run a Python file once and return its module."""
    name = f"_topology_{abs(hash(path)):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses of the file look themselves up here
    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout is for answers
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ValueError(f"{path} cannot be run: {_one_line(error)}") from error
    return module


def _call(body: "Topology", name: str, size: tuple[int, ...], fabric: "dict[str, Fabric]") -> "nx.DiGraph":
    """Call a stranger's function; whatever it raises becomes a ValueError that names it."""
    import networkx as nx

    try:
        with contextlib.redirect_stdout(sys.stderr):
            graph = body(*size, **fabric)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{name} failed on {_written(size)}: {_one_line(error)}") from error
    if not isinstance(graph, nx.DiGraph):
        raise ValueError(f"{name} must return a networkx.DiGraph, got {type(graph).__name__}")
    return graph


def _complete(graph: "nx.DiGraph", name: str, size: tuple[int, ...]) -> None:
    """Fill in what the author of a file may leave out, and make floats of numbers of any library."""
    graph.graph["name"] = graph.graph.get("name") or f"{name}{_written(size)}"
    for _, _, link in graph.edges(data=True):
        link.setdefault("kind", "link")
        link.setdefault("offloaded", True)
    for data in (*(d for _, d in graph.nodes(data=True)), *(d for _, _, d in graph.edges(data=True))):
        data.update({name: _number(data[name]) for name in NUMBERS if name in data})
    graph.graph.setdefault("sources", {})
    stated = [f"{fact}: as written in {name}" for fact in unaccounted(graph)]
    graph.graph["assumptions"] = [*graph.graph.get("assumptions", ()), *stated]


def _number(value: object) -> object:
    """Return a real number as a float; anything else, and what no float can hold, as it is."""
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else value
    except OverflowError:
        return value


def _written(size: tuple[int, ...]) -> str:
    """Write the arguments of a call."""
    return f"({', '.join(map(str, size))})"


def _one_line(error: BaseException) -> str:
    """Return the type and the first line of an error."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
