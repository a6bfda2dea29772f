"""Programs that Hypothesis draws."""

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from sim.program import Program
from tests.sim.graphs import MiB, cable, us


@st.composite
def programs(draw):
    """Draw a small program of any shape: ops, streams, dependencies, idle ranks, zero costs."""
    ranks = draw(st.integers(1, 10))
    program = Program(ranks)
    for op in range(draw(st.integers(1, 12))):
        after = draw(st.lists(st.integers(0, op - 1), max_size=4)) if op else []
        if draw(st.booleans()):
            cost = draw(st.lists(st.integers(0, 5), min_size=ranks, max_size=ranks))
            program.compute(np.array(cost) * 10 * us, after, stream=draw(st.integers(0, 2)))
        else:
            dst = np.array(draw(st.permutations(range(ranks))))
            dst[draw(st.lists(st.integers(0, ranks - 1), max_size=ranks))] = -1
            nbytes = draw(st.lists(st.integers(0, 4), min_size=ranks, max_size=ranks))
            program.permute(dst, np.array(nbytes) * MiB, after, stream=draw(st.integers(0, 3)))
    return program


@st.composite
def meshed(draw):
    """Draw a program on a grid of ranks: shifts along axes, transpositions, costs and bytes that repeat."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    ranks = np.arange(rows * columns)
    r, c = ranks // columns, ranks % columns
    program = Program(len(ranks))
    for op in range(draw(st.integers(1, 10))):
        after = draw(st.lists(st.integers(0, op - 1), max_size=3)) if op else []
        period = draw(st.sampled_from([1, 1, 1, 2, 4, len(ranks)]))
        numbers = np.array(draw(st.lists(st.integers(0, 3), min_size=period, max_size=period)))[ranks % period]
        by = draw(st.integers(0, 3))
        if draw(st.integers(0, 2)) == 0:
            program.compute(numbers * 10.1 * us, after, stream=draw(st.integers(0, 1)))
            continue
        dst = draw(
            st.sampled_from(
                [
                    (ranks + by) % len(ranks),
                    r * columns + (c + by) % columns,
                    (r + by) % rows * columns + c,
                    c * rows + r,
                    ranks ^ 1 if len(ranks) % 2 == 0 else ranks,
                    np.where(c + 1 < columns, ranks + 1, -1),
                    np.where(c == 0, r * columns + columns - 1, -1),
                ]
            )
        )
        nbytes = numbers * (MiB + 7) if draw(st.booleans()) else float(3 * MiB)
        weight = draw(st.sampled_from([1, 1, 1, 3, 1 + ranks % 2]))
        program.permute(dst, nbytes, after, stream=draw(st.integers(0, 4)), weight=weight)
    return program


@st.composite
def clusters(draw, ranks):
    """Draw a cluster of `ranks` GPUs: machines of one size, a NIC a GPU or one for all, numbers that differ."""
    graph = nx.DiGraph(name="drawn", sources={}, assumptions=[])
    each = draw(st.sampled_from([size for size in (1, 2, 4, ranks) if ranks % size == 0]))
    shared, speed = draw(st.booleans()), st.sampled_from([1e9, 7e9, 50e9])
    graph.add_node("switch", kind="switch")
    for rank in range(ranks):
        host, gpu = f"node{rank // each}", f"gpu{rank}"
        flop_rate, memory = draw(st.sampled_from([1e10, 1e12, 1e15])), draw(st.sampled_from([1e9, 1e12]))
        graph.add_node(gpu, kind="gpu", rank=rank, flop_rate=flop_rate, memory_bandwidth=memory, host=host)
        graph.add_node(f"{host}/nvswitch", kind="nvswitch", host=host)
        cable(graph, gpu, f"{host}/nvswitch", 9 * draw(speed), 0.2 * us, "nvlink")
        if not shared:
            cable(graph, gpu, "switch", draw(speed), draw(st.sampled_from([0.0, 1 * us])), "nic")
    if shared:
        for machine in range(ranks // each):
            cable(graph, f"node{machine}/nvswitch", "switch", draw(speed), 1 * us, "nic")
    return graph
