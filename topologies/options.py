"""The cluster's command-line options, shared by both commands, and the graph that they name."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from topologies import Topology, fabrics, find, given, names
from topologies.laws import check
from topologies.units import in_range, parse_whole

if TYPE_CHECKING:
    import networkx as nx

LARGEST_CLUSTER = 2**17  # GPUs; a graph of more is minutes and gigabytes

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Named:
    """What these options said, as typed, but nic in bytes/s; None where nothing was said.

    Attributes:
        files: in place of what the cluster names: files, whatever their names look like.
    """

    cluster: str
    nodes: int | None
    gpus: int | None
    fabric: str | None
    gpu: str | None = None
    nic: float | None = None
    files: tuple[str, ...] = ()

    def build(self) -> "tuple[nx.DiGraph, int]":
        """Return the cluster's graph, and how many of its GPUs are to be used, as `build` does.

        What was guessed of a file and matters most is said on stderr, a line each.
        """
        graph, used = build(self.cluster, self.nodes, self.gpus, self.fabric, self.gpu, self.nic, self.files)
        for text in graph.graph.get("warnings", ()):
            click.echo(f"ringloom: {text}", err=True)
        return graph, used


def cluster_options(command: _Command) -> _Command:
    """Give a click command --cluster and the options of its size and parts, as one argument `named`."""
    option = click.option(
        "--cluster",
        default="dgx_h100",
        show_default=True,
        metavar="NAME|FILE[,FILE...]|FILE.py:NAME",
        help="A topology, as `ringloom topology list` names them, or files of a machine or a network: nvidia-smi topo "
        "-m, nvlink -s, rocm-smi --showtopo, NCCL's XML, ibnetdiscover, ASTRA-sim, our JSON, YAML and GraphML.",
    )
    return option(size_options(command))


def size_options(command: _Command) -> _Command:
    """Give a click command all of cluster_options but --cluster; `named` has an empty one, which it replaces."""

    @functools.wraps(command)
    def with_record(*args: Any, **given: Any) -> Any:
        said = {each.name: given.pop(each.name, "") for each in fields(Named) if each.name != "files"}
        return command(*args, named=Named(**said), **given)

    decorated: Any = with_record
    for option in reversed(
        (
            click.option("--nodes", callback=_whole, metavar="N", help="How many machines (racks, for NVL72)."),
            click.option("--gpus", callback=_whole, metavar="N", help="How many GPUs, in place of --nodes."),
            click.option(
                "--fabric",
                metavar="NAME[:KEY=VALUE,...]|FILE|FILE.py:NAME",
                help="What joins the machines' NICs, as fat_tree:oversubscription=2; `ringloom topology list` names "
                f"them; or an ibnetdiscover listing.  [default: the machine's own, of most {fabrics.DEFAULT}]",
            ),
            click.option("--gpu", metavar="MODEL", help="Of a file that does not name its GPUs: h100, mi300x, ..."),
            click.option("--nic", callback=_speed, metavar="SPEED", help="Of a file's NICs: 400G, 50GB/s, ndr, efa."),
        )
    ):
        decorated = option(decorated)
    return cast(_Command, decorated)


def build(
    cluster: str,
    nodes: int | None = None,
    gpus: int | None = None,
    fabric: str | None = None,
    gpu: str | None = None,
    nic: float | None = None,
    files: Sequence[str] = (),
) -> "tuple[nx.DiGraph, int]":
    """Return the cluster's graph, held to the laws if it is from a file, and how many of its GPUs are to be used.

    The GPUs used are ranks 0 .. n-1: all of the graph's, unless fewer than one machine has were asked for.

    Args:
        cluster: name of a topology, FILE.py:NAME, or files separated by commas.
        nodes: machines, or whatever the topology's first argument counts; 1 unless said.
        gpus: GPUs in all, in place of nodes; if both are given they must agree.
        fabric: NAME or NAME:KEY=VALUE,..., or the file of a listing; the topology's own unless said.
        gpu, nic: of files that do not say them: the model of the GPUs, bytes/s of a NIC in one direction.
        files: in place of what the cluster names, which is then what messages call them.
    Raises:
        ValueError: no such cluster or fabric, a size it cannot have, or a graph that breaks a law.
    """
    topology = given.of_files(files, gpu, nic) if files else _topology(cluster, gpu, nic)
    for name, size in (("nodes", nodes), ("gpus", gpus)):
        if size is not None:
            in_range(size, name, maximum=LARGEST_CLUSTER)
    if fabric is not None:
        topology = _on(topology, cluster, fabric)
    unit = _size_argument(topology, cluster)
    if unit == "gpus":
        if nodes is not None:
            raise ValueError(f"nodes {nodes}: {cluster} has no machines, its size is given by gpus")
        graph = topology() if gpus is None else topology(gpus)
        used = _count(graph)
    else:
        each = _count(topology(1) if unit else topology())
        units, used = _units(cluster, unit, each, nodes, gpus)
        graph = topology(units) if unit else topology()
    if (
        files or cluster not in names() or (fabric and fabric.strip().partition(":")[0] not in fabrics.names())
    ):  # ours are held to the laws by the tests
        check(graph)
    if used > _count(graph):
        raise ValueError(f"gpus {used}: {graph.graph['name']} has {_count(graph)} GPUs")
    if fabric is not None and "fabric" not in graph.graph:
        raise ValueError(f"--fabric {fabric} changes nothing: {graph.graph['name']} has nothing to join")
    return graph, _count(graph) if gpus is None else used


def _topology(cluster: str, gpu: str | None, nic: float | None) -> Topology:
    """Return the topology that a name or files stand for.

    Raises:
        ValueError: there is none, its files cannot be used, or gpu or nic is given for what has its own.
    """
    if given.is_file(cluster, names()):
        return given.topology(cluster, gpu, nic)
    found = find(cluster)
    if gpu is not None:
        raise ValueError(f"--gpu {gpu}: {cluster} has GPUs of its own; it is for files that do not name theirs")
    if nic is not None:
        raise ValueError(f"--nic: {cluster} has NICs of its own; another speed is --fabric {fabrics.DEFAULT}:gbit=400")
    return found


def _on(topology: Topology, cluster: str, fabric: str) -> Topology:
    """Return the topology with its machines joined by that fabric.

    Raises:
        ValueError: no such fabric, or a topology that is joined in one way only.
    """
    joined = given.fabric(fabric) if given.is_file(fabric, fabrics.names()) else fabrics.parse(fabric)
    if "fabric" not in inspect.signature(topology).parameters:
        why = "it has no machines whose NICs could be joined"
        if given.is_file(cluster, names()):
            why = "it is one whole cluster; files of a machine, or `ringloom topology import` of these, take one"
        raise ValueError(f"--fabric {fabric}: {cluster} takes no fabric, {why}")

    @functools.wraps(topology)
    def on_fabric(*size: int) -> "nx.DiGraph":
        return topology(*size, fabric=joined)

    return on_fabric


def _size_argument(topology: Topology, cluster: str) -> str:
    """Return the name of the topology's first argument, which is its size; "" if it takes none.

    Raises:
        ValueError: other arguments have no default.
    """
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(inspect.signature(topology).parameters.values())
    for parameter in parameters[1:]:
        if parameter.default is parameter.empty and parameter.kind in named:
            raise ValueError(f"{cluster} is no topology: its argument {parameter.name} has no default")
    return parameters[0].name if parameters and parameters[0].kind in named else ""


def _units(cluster: str, unit: str, each: int, nodes: int | None, gpus: int | None) -> tuple[int, int]:
    """Return how many units of `each` GPUs to build, and how many GPUs to use."""
    units = nodes or 1
    if gpus is not None and nodes is None:
        if gpus > each and gpus % each:
            near, one = gpus // each * each, unit.removesuffix("s") or "graph"
            raise ValueError(
                f"gpus {gpus} is no multiple of the {each} of one {one} of {cluster}: "
                f"nearest are {near} and {near + each}"
            )
        units = max(1, gpus // each)
    used = units * each if gpus is None else gpus
    if used != units * each and not (units == 1 and used < each):
        raise ValueError(f"gpus {gpus}: nodes {nodes} of {cluster} are {units * each} GPUs; give one of the two")
    if units > 1 and not unit:
        more = "; say --nodes to `ringloom topology import`, of a machine's files" * given.is_file(cluster, names())
        raise ValueError(f"{cluster} is of one size, {each} GPUs: it cannot be had {units} times{more}")
    if units * each > LARGEST_CLUSTER:
        raise ValueError(f"a cluster has at most {LARGEST_CLUSTER} GPUs: {cluster} {units} has {units * each}")
    return units, used


def _count(graph: "nx.DiGraph") -> int:
    """Return the number of GPUs.

    Raises:
        ValueError: there is none.
    """
    gpus: int = sum(kind == "gpu" for _, kind in graph.nodes(data="kind"))
    if not gpus:
        raise ValueError(f"{graph.graph['name']} has no GPU: a node of kind 'gpu'")
    return gpus


def _speed(_: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Read the speed of a NIC for click."""
    from topologies.files.text.speeds import parse_speed

    try:
        return None if text is None else parse_speed(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _whole(_: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Read a size for click."""
    try:
        return None if text is None else parse_whole(text, str(parameter.name), maximum=LARGEST_CLUSTER)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
