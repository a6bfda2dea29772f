"""A cluster that a file describes whole: our own graphs, and those of other simulators, with what they leave out."""

from typing import TYPE_CHECKING

from topologies.files.assembly.guess import gpu_named
from topologies.files.assembly.merge import short
from topologies.files.facts import ClusterFacts
from topologies.hardware import GPUS, Gpu
from topologies.laws import unaccounted
from topologies.links import Estimate
from topologies.units import Gbit, format_rate, us

if TYPE_CHECKING:
    import networkx as nx

_LATENCY = Estimate(0.7 * us, "that of an NVLink, for want of any")
_BANDWIDTH = 400 * Gbit


def filled(whole: ClusterFacts, gpu: str | None, nic: float | None, nics: bool = False) -> "nx.DiGraph":
    """Return a file's graph with the numbers that its GPUs and links lack.

    Args:
        gpu: model of the GPUs that have no numbers.
        nic: bytes/s of the links that have none.
        nics: whether it is of use for NICs too.
    Raises:
        ValueError: no such GPU, or nothing lacks what was given.
    """
    graph, who = whole.graph.copy(), short(whole.file)
    facts = graph.graph
    facts["name"] = facts.get("name") or who
    facts["sources"], facts["assumptions"] = dict(facts.get("sources") or {}), list(facts.get("assumptions") or ())
    facts["notes"] = [*facts.get("notes", ()), *(f"{who}: {note}" for note in whole.notes)]
    facts["left_out"], facts["warnings"] = list(facts.get("left_out", ())), list(facts.get("warnings", ()))
    _fill_gpus(graph, whole, gpu)
    _fill_links(graph, whole, nic, nics)
    facts["sources"] |= dict.fromkeys(unaccounted(graph), f"{who} ({whole.format})")
    return graph


def _fill_gpus(graph: "nx.DiGraph", whole: ClusterFacts, asked: str | None) -> None:
    """Give numbers to GPUs that have no speed: those of the model asked for, or else of the one that each names."""
    bare = [data for _, data in graph.nodes(data=True) if data.get("kind") == "gpu" and data.get("flop_rate") is None]
    if asked is not None and not bare:
        raise ValueError(f"--gpu {asked} changes nothing: {whole.file} has the numbers of its GPUs")
    facts, who = graph.graph, short(whole.file)
    used: dict[Gpu, bool] = {}  # model: whether some GPU is one without being called so
    for data in bare:
        model, guessed = (gpu_named(asked), False) if asked else _said(whole, data.get("gpu"))
        used[model] = used.get(model, False) or guessed
        data.update({key: value for key, value in model.node(0).items() if key == "gpu" or data.get(key) is None})
    for model, guessed in used.items():
        facts["sources"] = model.sources() | facts["sources"]
        facts["assumptions"] += [text for text in model.assumptions() if text not in facts["assumptions"]]
        if guessed:
            facts["assumptions"].append(f"gpu: {model.name}; {who} gives its GPUs no numbers; say --gpu")
            facts["warnings"].append(f"assumes {model.name}: {who} gives its GPUs no numbers; say --gpu")


def _said(whole: ClusterFacts, name: object) -> tuple[Gpu, bool]:
    """Return the GPU that a node's `gpu` names, or the usual one where it names none, and whether it is that.

    Raises:
        ValueError: it names one that is not in the table.
    """
    if name is None:
        return _usual(whole), True
    try:
        return gpu_named(str(name)), False
    except ValueError as error:
        raise ValueError(f"{whole.file}: {error}; or say its flop_rate") from None


def _fill_links(graph: "nx.DiGraph", whole: ClusterFacts, asked: float | None, nics: bool) -> None:
    """Give numbers to links that have none."""
    facts, who = graph.graph, short(whole.file)
    slow, late = set(), set()
    for _, _, link in graph.edges(data=True):
        link.setdefault("kind", "link")
        link.setdefault("offloaded", True)
        if link.get("latency") is None:
            link["latency"] = _LATENCY.latency
            late.add(str(link["kind"]))
        if link.get("bandwidth") is None:
            link["bandwidth"] = asked or _BANDWIDTH
            slow.add(str(link["kind"]))
    if asked is not None and not slow and not nics:
        raise ValueError(f"--nic changes nothing: {whole.file} has the bandwidth of all its links")
    why = "as asked for" if asked else f"an NDR port; {who} gives none, --nic would"
    facts["assumptions"] += [f"{kind}.bandwidth: {format_rate(asked or _BANDWIDTH)}; {why}" for kind in sorted(slow)]
    facts["assumptions"] += [_LATENCY.of(f"{kind}.latency") for kind in sorted(late)]
    if slow and asked is None:
        facts["warnings"].append(f"assumes links of {format_rate(_BANDWIDTH)}: {who} gives none; say --nic")


def _usual(whole: ClusterFacts) -> Gpu:
    """Return the GPU taken for a cluster whose file names none."""
    return GPUS["TPU-v4"] if "tpu" in short(whole.file).lower() else GPUS["H100-SXM5-80"]
