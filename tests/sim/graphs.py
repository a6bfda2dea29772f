"""Small clusters and programs that several tests share. Nothing here is a real machine."""

import networkx as nx
import numpy as np

from sim.program import Program

us = 1e-6
MiB = 1 << 20


def cable(graph, a, b, bandwidth, latency, kind="link"):
    """Lay a full-duplex cable: two directed links."""
    graph.add_edge(a, b, bandwidth=bandwidth, latency=latency, kind=kind)
    graph.add_edge(b, a, bandwidth=bandwidth, latency=latency, kind=kind)


def gpus(ranks, name):
    """Return a graph of GPUs without links."""
    graph = nx.DiGraph(name=name)
    for rank in range(ranks):
        graph.add_node(f"gpu{rank}", kind="gpu", rank=rank)
    return graph


def star(ranks, bandwidth=50e9, latency=0.5 * us):
    """Every GPU has one full-duplex link to one switch."""
    graph = gpus(ranks, f"star({ranks})")
    for rank in range(ranks):
        cable(graph, f"gpu{rank}", "switch", bandwidth, latency)
    return graph


def two_level(ranks, node=8):
    """`node` GPUs to an NVSwitch; besides, every GPU has a NIC into one non-blocking fabric."""
    graph = gpus(ranks, f"two_level({ranks})")
    for rank in range(ranks):
        cable(graph, f"gpu{rank}", f"nvswitch{rank // node}", 450e9, 0.25 * us, "nvlink")
        cable(graph, f"gpu{rank}", "fabric", 50e9, 1.0 * us, "fabric")
    return graph


def shared_nic(ranks, node=4):
    """`node` GPUs to an NVSwitch; the NVSwitch has the machine's only NIC."""
    graph = gpus(ranks, f"shared_nic({ranks})")
    for rank in range(ranks):
        cable(graph, f"gpu{rank}", f"nvswitch{rank // node}", 450e9, 0.25 * us, "nvlink")
    for machine in range(-(-ranks // node)):
        cable(graph, f"nvswitch{machine}", "fabric", 50e9, 1.0 * us, "fabric")
    return graph


def shift(ranks, by=1):
    """Return dst of a cyclic shift."""
    return (np.arange(ranks) + by) % ranks


def one_send(ranks, source, destination):
    """Return dst of a single send."""
    dst = np.full(ranks, -1)
    dst[source] = destination
    return dst


def ring_attention(ranks, cost, nbytes, steps=None):
    """Each rank computes on a block and passes it on: `steps` computes, one send less."""
    program = Program(ranks)
    dst, sent = shift(ranks), []
    steps = steps or ranks
    for step in range(steps):
        if step < steps - 1:
            hop = program.permute(dst, nbytes, after=sent)
        program.compute(cost, after=sent)
        sent = [hop]
    return program
