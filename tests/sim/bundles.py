"""Flows over links of any shape: what a graph of GPUs would only allow by accident."""

import numpy as np
from hypothesis import strategies as st

from sim.program import Program


class Bundle:
    """Any routes at all: flow k goes from rank 2k to rank 2k + 1 over routes[k]; links have no latency unless given."""

    def __init__(self, capacity, routes, latency=None):
        self.name, self.ranks, self.pad, self.routes = "bundle", 2 * len(routes), len(capacity), routes
        self.capacity = np.append(np.array(capacity, float), np.inf)
        self.latency = np.append(np.zeros(len(capacity)) if latency is None else latency, 0.0)
        self.links = [(f"a{link}", f"b{link}") for link in range(len(capacity))]

    def route(self, source, destination):
        table = np.full((len(source), max(map(len, self.routes))), self.pad)
        for row, (s, d) in enumerate(zip(source, destination, strict=True)):
            if s != d:
                table[row, : len(self.routes[s // 2])] = self.routes[s // 2]
        return table


def sends(sizes, starts=None, weights=None):
    """Return the program of Bundle's flows."""
    ranks = 2 * len(sizes)
    program, dst, nbytes, wait = Program(ranks), np.full(ranks, -1), np.zeros(ranks), np.zeros(ranks)
    dst[::2] = np.arange(1, ranks, 2)
    nbytes[::2] = sizes
    wait[::2] = starts if starts is not None else 0
    weight = np.ones(ranks, np.int64)
    weight[::2] = weights if weights is not None else 1
    program.permute(dst, nbytes, after=[program.compute(wait)], weight=weight)
    return program


@st.composite
def bundles(draw):
    """Draw integer capacities and routes of 1-4 links."""
    links = draw(st.integers(1, 8))
    capacity = draw(st.lists(st.integers(1, 60), min_size=links, max_size=links))
    route = st.lists(st.integers(0, links - 1), min_size=1, max_size=min(4, links), unique=True)
    return capacity, draw(st.lists(route, min_size=1, max_size=14))
