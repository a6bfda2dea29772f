"""Idealised clusters of which every time can be worked out by hand.

Their numbers are whatever the caller gives; the defaults are near an H100 with NVLink 4 and are assumptions,
not a machine. flop_rate is the only number of a GPU, so that computing time is FLOP / flop_rate.
"""

import networkx as nx

from topologies.links import Link, cable
from topologies.units import GB, TFLOP, in_range, ns, us


def switch(
    gpus: int = 8,
    bandwidth: float = 450 * GB,
    latency: float = 0.5 * us,
    flop_rate: float = 989.4 * TFLOP,
) -> nx.DiGraph:
    """Return GPUs around one switch: every path is two links.

    Args:
        gpus: number of GPUs, at least 1.
        bandwidth: bytes/s of each link in one direction.
        latency: seconds of each link; from GPU to GPU it is twice that.
        flop_rate: FLOP/s of each GPU.
    """
    graph = _gpus(f"switch({gpus})", gpus, flop_rate)
    graph.graph["assumptions"] += _given("link", bandwidth, latency)
    graph.add_node("switch", kind="switch")
    for rank in range(gpus):
        cable(graph, f"gpu{rank}", "switch", Link("link", bandwidth, latency))
    return graph


def ring(
    gpus: int = 8,
    bandwidth: float = 450 * GB,
    latency: float = 0.5 * us,
    flop_rate: float = 989.4 * TFLOP,
) -> nx.DiGraph:
    """Return GPUs in a circle, each cabled to the next; farther ones are reached through GPUs.

    Args:
        gpus: number of GPUs, at least 1; two are joined by one cable.
        bandwidth: bytes/s of each link in one direction.
        latency: seconds of each link.
        flop_rate: FLOP/s of each GPU.
    """
    graph = _gpus(f"ring({gpus})", gpus, flop_rate)
    graph.graph["assumptions"] += _given("link", bandwidth, latency)
    for rank in range(gpus if gpus > 2 else gpus - 1):
        cable(graph, f"gpu{rank}", f"gpu{(rank + 1) % gpus}", Link("link", bandwidth, latency))
    return graph


def fully_connected(
    gpus: int = 8,
    bandwidth: float = 450 * GB,
    latency: float = 0.5 * us,
    flop_rate: float = 989.4 * TFLOP,
) -> nx.DiGraph:
    """Return GPUs with a cable of its own between each two.

    Args:
        gpus: number of GPUs, 1 .. 1024: the links are gpus * (gpus - 1).
        bandwidth: bytes/s of each link in one direction; a GPU has gpus - 1 of them.
        latency: seconds of each link.
        flop_rate: FLOP/s of each GPU.
    """
    in_range(gpus, "gpus of fully_connected", maximum=1024)
    graph = _gpus(f"fully_connected({gpus})", gpus, flop_rate)
    graph.graph["assumptions"] += _given("link", bandwidth, latency)
    for a in range(gpus):
        for b in range(a):
            cable(graph, f"gpu{a}", f"gpu{b}", Link("link", bandwidth, latency))
    return graph


def two_level(
    nodes: int = 1,
    gpus: int = 8,
    near: tuple[float, float] = (450 * GB, 250 * ns),
    far: tuple[float, float] = (50 * GB, 1 * us),
    flop_rate: float = 989.4 * TFLOP,
) -> nx.DiGraph:
    """Return machines of one switch each, whose GPUs also have a port each on one switch for all.

    Args:
        nodes: number of machines, at least 1; ranks gpus * n and up live on machine n.
        gpus: GPUs of each machine, at least 1.
        near: bytes/s in one direction and seconds of a link inside a machine.
        far: the same of a link to the switch for all.
        flop_rate: FLOP/s of each GPU.
    """
    in_range(nodes, "nodes")
    in_range(gpus, "gpus")
    graph = _gpus(f"two_level({nodes}, {gpus})", nodes * gpus, flop_rate)
    graph.graph["assumptions"] += _given("nvlink", *near) + _given("nic", *far)
    graph.add_node("switch", kind="switch")
    for rank in range(nodes * gpus):
        host = f"node{rank // gpus}"
        graph.nodes[f"gpu{rank}"]["host"] = host
        graph.add_node(f"{host}/nvswitch", kind="nvswitch", host=host)
        cable(graph, f"gpu{rank}", f"{host}/nvswitch", Link("nvlink", *near))
        cable(graph, f"gpu{rank}", "switch", Link("nic", *far))
    return graph


def _gpus(name: str, gpus: int, flop_rate: float) -> nx.DiGraph:
    """Return gpus unconnected GPUs, each a host of its own."""
    in_range(gpus, "gpus")
    assumptions = [f"gpu.flop_rate: {flop_rate:g} FLOP/s, as given"]
    graph = nx.DiGraph(name=name, sources={}, assumptions=assumptions)
    for rank in range(gpus):
        graph.add_node(f"gpu{rank}", kind="gpu", rank=rank, flop_rate=flop_rate, host=f"node{rank}")
    return graph


def _given(kind: str, bandwidth: float, latency: float) -> list[str]:
    """Return the assumptions about a class of link whose numbers the caller chose."""
    return [f"{kind}.bandwidth: {bandwidth:g} B/s, as given", f"{kind}.latency: {latency:g} s, as given"]
