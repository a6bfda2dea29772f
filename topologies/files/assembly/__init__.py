"""From the files that people have to a cluster: what they say, and what had to be assumed, each with its reason."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import networkx as nx

from topologies.cluster import cluster, machine
from topologies.fabrics import Fabric
from topologies.fabrics.rail import rail
from topologies.files import read
from topologies.files.assembly import hosts, network, nvlinks, repeated
from topologies.files.assembly.guess import gpu_named, models, silent_links
from topologies.files.assembly.merge import Merged, merge, short
from topologies.files.assembly.whole import filled
from topologies.files.facts import ClusterFacts, Facts, FileError, MachineFacts, NetworkFacts
from topologies.hardware import Gpu
from topologies.laws import check

if TYPE_CHECKING:
    from topologies import Topology


def topology(paths: Sequence[str], gpu: str | None = None, nic: float | None = None) -> "Topology":
    """Return what files describe, as a topology.

    A machine, which one file describes or several together, is called as `(nodes=1, fabric=rail)`, as is one with NICs
    in a graph of ours; a whole cluster, of such a graph, an ASTRA-sim file or the listing of a network, takes no size.
    Its graph has, beside name, sources and assumptions, `left_out` (what the files say and the graph has not), `notes`
    (what readers remarked) and `warnings` (guesses that matter most, a line each).

    Args:
        paths: of files, read in this order: what one says, a later one does not change.
        gpu: model of all GPUs, as topologies.hardware.named has it; guessed if neither this nor a file says it.
        nic: bytes/s of a NIC in one direction, where no file says it.
    Raises:
        ValueError: no such GPU, files that are not of one machine, or a graph that would break a law.
        FileError: a file cannot be used.
    """
    facts = [read(path) for path in paths]
    whole = [one for one in facts if isinstance(one, ClusterFacts)]
    networks = [one for one in facts if isinstance(one, NetworkFacts)]
    machines = [one for one in facts if isinstance(one, MachineFacts)]
    if whole:
        return _of_cluster(whole[0], facts, gpu, nic)
    if len(networks) > 1:
        raise ValueError(f"{networks[0].file} and {networks[1].file} are listings of two networks: give one")
    if networks:
        return _of_network(networks[0], machines, gpu, nic)
    return _of_machine(machines, gpu, nic)


def machine_graph(files: Sequence[MachineFacts], gpu: str | None = None, nic: float | None = None) -> nx.DiGraph:
    """Return the graph of one machine, as topologies.cluster has it.

    Raises:
        ValueError: as of topology.
    """
    merged = merge(files)
    found = models(merged, gpu)
    silent = silent_links(merged.facts, found.gpus[0])
    if silent:
        links, switched = silent
        kind = found.gpus[0].link_kind
        merged.facts = replace(merged.facts, links=links, switched=switched, link_kind=kind)
    graph = machine(merged.name, found.gpus[0])
    for other in dict.fromkeys(found.gpus[1:]):
        graph.graph["sources"] = other.sources() | graph.graph["sources"]
        graph.graph["assumptions"] += [text for text in other.assumptions() if text not in graph.graph["assumptions"]]
    graph.graph |= {"left_out": [], "notes": merged.notes, "warnings": [found.warning] if found.warning else []}
    if found.assumed:
        graph.graph["assumptions"].append(found.assumed)
    for rank, (one, model) in enumerate(zip(merged.facts.gpus, found.gpus, strict=True)):
        graph.add_node(f"gpu{one.index}", **model.node(rank))
    nvlinks.wire(graph, merged, found)
    if silent:
        _say_silent(graph, merged, found.gpus[0])
    hosts.attach(graph, merged, found, nic)
    return graph


def _say_silent(graph: nx.DiGraph, merged: Merged, model: Gpu) -> None:
    """Say that links are those of the GPU's board, since the file shows none."""
    kind, who = model.link_kind, short(merged.facts.file)
    facts = graph.graph
    facts["assumptions"] = [text for text in facts["assumptions"] if not text.startswith(f"{kind}: ")]
    how = "through switches" if merged.facts.switched else "between all pairs"
    facts["assumptions"].append(
        f"{kind}: {model.links} links a GPU, {how}; {who} shows none, as files made for NCCL do not; topo -m would"
    )
    facts["warnings"].append(f"assumes {kind} {how}: {who} shows none; topo -m of the machine would")
    if f"{kind}.bandwidth" in facts["sources"]:
        facts["sources"][f"{kind}.bandwidth"] = model.source


def _of_machine(files: Sequence[MachineFacts], gpu: str | None, nic: float | None) -> "Topology":
    """Return machines of the kind that files describe, joined by any fabric."""
    one = machine_graph(files, gpu, nic)
    named = " and ".join(short(file.file) for file in files)

    def machines(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
        if nodes > 1 and "network" not in one.graph:
            raise ValueError(f"nodes {nodes}: {named} shows no NIC to join machines by; --nic 400G gives each GPU one")
        return _checked(_with_remarks(cluster(one, nodes, fabric), one), named)

    machines()  # a file that cannot be used is refused now
    return machines


def _of_network(
    listing: NetworkFacts, machines: Sequence[MachineFacts], gpu: str | None, nic: float | None
) -> "Topology":
    """Return the hosts of a listing, each a machine."""
    graph = network.place(listing, lambda ports: _at_host(listing, machines, ports, gpu, nic))
    _checked(graph, short(listing.file))

    def listed() -> nx.DiGraph:
        return graph.copy()

    return listed


def _at_host(
    listing: NetworkFacts, machines: Sequence[MachineFacts], ports: int, gpu: str | None, nic: float | None
) -> nx.DiGraph:
    """Return the machine that stands at a host: of the files, or else with a GPU for each of its HCAs."""
    if machines:
        return machine_graph(machines, gpu, nic)
    if nic is not None and any(one.bandwidth for one in listing.cables):
        raise ValueError(f"--nic changes nothing: {listing.file} says how fast its cables are")
    model = gpu_named(gpu) if gpu else network.usual_gpu(listing)
    one = machine_graph([network.assumed_machine(listing, ports, model)], model.name, nic)
    return network.with_reasons(one, listing, model, said=gpu is not None)


def _of_cluster(whole: ClusterFacts, facts: Sequence[Facts], gpu: str | None, nic: float | None) -> "Topology":
    """Return a cluster that a file describes whole, with what it leaves out filled in."""
    if len(facts) > 1:
        other = next(one for one in facts if one is not whole)
        raise ValueError(f"{whole.file} describes a whole cluster: it takes no other file, as {other.file}")
    has_machine = repeated.is_machine(whole.graph)
    graph = filled(whole, gpu, nic, nics=has_machine)
    _checked(graph, short(whole.file))
    if has_machine:
        return _again(graph, whole, nic)

    def cluster_of_file() -> nx.DiGraph:
        return graph.copy()

    return cluster_of_file


def _again(graph: nx.DiGraph, whole: ClusterFacts, nic: float | None) -> "Topology":
    """Return the one machine of a cluster file as often as is asked for."""
    one, unit = repeated.machine_of(graph, whole, nic)

    def machines(nodes: int = 1, fabric: Fabric = rail) -> nx.DiGraph:
        if nodes == 1:
            return graph.copy()
        return _checked(_with_remarks(cluster(one, nodes, fabric, unit), one), short(whole.file))

    return machines


def _with_remarks(graph: nx.DiGraph, one: nx.DiGraph) -> nx.DiGraph:
    """Add to a cluster what its machine's files left to remark, and cite the file for the speed of its NICs."""
    for key in ("left_out", "notes", "warnings"):
        graph.graph[key] = list(one.graph[key])
    cited = one.graph.get("cited")
    if cited and "network" in graph.graph:
        said = graph.graph["network"]
        graph.graph["network"] = {"source" if key == "assumed" else key: value for key, value in said.items()}
    assumed = f"nic.bandwidth: {cited}"
    if assumed in graph.graph["assumptions"]:
        graph.graph["assumptions"].remove(assumed)
        graph.graph["sources"]["nic.bandwidth"] = one.graph["cited"]
    return graph


def _checked(graph: nx.DiGraph, file: str) -> nx.DiGraph:
    """Return a graph that keeps the laws.

    Raises:
        FileError: it breaks one.
    """
    try:
        check(graph)
    except ValueError as error:
        raise FileError(file, str(error)) from None
    return graph
