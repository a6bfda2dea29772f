"""Rings through a torus: Hamiltonian cycles that share no cable, and the all-reduce that they make."""

from itertools import product
from math import prod

import networkx as nx
import pytest

import topologies
from sim.bandwidths import Bandwidths
from sim.torus import cycles, sides
from topologies.links import Link, cable
from topologies.units import GB, us

SHAPES = [(5,), (4, 4), (3, 3), (3, 5), (4, 8), (3, 3, 3), (4, 4, 4), (4, 4, 8), (5, 7, 3), (8, 8, 8), (4, 4, 4, 4)]


def neighbours(shape):
    places = list(product(*map(range, shape)))
    number = {place: k for k, place in enumerate(places)}
    return [
        sorted(
            number[(*place[:axis], (place[axis] + step) % side, *place[axis + 1 :])]
            for axis, side in enumerate(shape)
            for step in (1, -1)
        )
        for place in places
    ]


@pytest.mark.parametrize("shape", [*SHAPES, (8, 16, 16)])
def test_a_torus_has_a_ring_a_dimension_and_no_two_share_a_cable(shape):
    found, near = cycles(shape), neighbours(shape)
    cables = [frozenset(ends) for cycle in found for ends in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]

    assert len(found) == len(shape)
    assert all(sorted(cycle) == list(range(prod(shape))) for cycle in found)
    assert len(set(cables)) == len(cables) == prod(shape) * len(shape)
    assert all(b in near[a] for a, b in map(tuple, cables))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_torus_is_known_by_who_is_cabled_to_whom(shape):
    assert sides(neighbours(shape)) == shape


@pytest.mark.parametrize(
    "graph",
    [
        nx.grid_graph((4, 4, 4)),
        nx.complete_graph(8),
        nx.hypercube_graph(4),
        nx.random_regular_graph(4, 16, seed=1),
        nx.path_graph(4),
        nx.empty_graph(3),
    ],
)
def test_what_is_no_torus_has_no_sides(graph):
    numbered = nx.convert_node_labels_to_integers(graph)
    assert sides([sorted(numbered[place]) for place in sorted(numbered)]) is None


@pytest.mark.parametrize(
    ("name", "chips", "link"),
    [("tpu_v4", 64, 50), ("tpu_v4", 256, 50), ("tpu_v5p", 128, 100)],
)
def test_all_reduce_on_a_torus_uses_all_six_links_of_a_chip(name, chips, link):
    # A chip sends 2 (n-1)/n of its bytes and has six links to send by: busbw = 6 x link. No way sends fewer bytes, so
    # none is faster; three cycles in both directions carry a sixth each, on all of the links, all the time.
    found = Bandwidths(topologies.find(name)(chips))

    assert len(found.rings) == 6
    assert found.all_reduce == pytest.approx(6 * link * GB)


@pytest.mark.parametrize("shape", [(5,), (6, 4), (3, 3, 3)])
def test_busbw_is_the_links_of_a_chip_in_any_number_of_dimensions(shape):
    graph = nx.DiGraph(name="torus", sources={}, assumptions=[])
    near = neighbours(shape)
    graph.add_nodes_from((f"c{rank}", {"kind": "gpu", "rank": rank, "flop_rate": 1e12}) for rank in range(len(near)))
    for rank, others in enumerate(near):
        for other in others:
            cable(graph, f"c{rank}", f"c{other}", Link("ici", 10 * GB, 1 * us))

    assert Bandwidths(graph).all_reduce == pytest.approx(2 * len(shape) * 10 * GB)
