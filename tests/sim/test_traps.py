"""Mistakes that other simulators make, each of which would change a ranking."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.engine import run
from sim.network import Network
from sim.program import Program, freeze
from tests.sim.graphs import MiB, cable, gpus, one_send, ring_attention, shift, star, two_level, us


@pytest.mark.parametrize("links", [1, 2, 3, 7])
def test_a_message_is_serialised_once_however_many_links_it_crosses(links):
    # latency|latency|...|transfer-----|    not latency|transfer-----|latency|transfer-----|
    graph = gpus(2, "line")
    nodes = ["gpu0", *(f"switch{k}" for k in range(links - 1)), "gpu1"]
    for k in range(links):
        cable(graph, nodes[k], nodes[k + 1], bandwidth=(2 + k) * 1e9, latency=(1 + k) * us)
    program = Program(2)
    program.permute([1, -1], 64 * MiB)

    end = run(freeze(program, Network(graph))).makespan

    latency = sum((1 + k) * us for k in range(links))
    assert end == pytest.approx(latency + 64 * MiB / 2e9, rel=1e-12)


@st.composite
def exchanges(draw):
    """Draw a graph and permutes of random bytes on random streams, some ranks without a partner."""
    ranks = draw(st.integers(2, 20))
    graph = draw(st.sampled_from([star, two_level]))(ranks)
    sends = []
    for _ in range(draw(st.integers(1, 6))):
        dst = np.array(draw(st.permutations(range(ranks))))
        silent = draw(st.lists(st.integers(0, ranks - 1), max_size=ranks))
        dst[silent] = -1
        sizes = st.integers(0, 64 * MiB)
        nbytes = np.array(draw(st.lists(sizes, min_size=ranks, max_size=ranks)), float)
        sends.append((dst, nbytes, draw(st.integers(1, 3))))
    return graph, ranks, sends


@given(exchanges())
def test_no_time_is_below_bytes_over_bandwidth(case):
    # A rank takes in its bytes through all its links at best; a link carries its own at best.
    graph, ranks, sends = case
    program, network = Program(ranks), Network(graph)
    received, sent = np.zeros(ranks), np.zeros(ranks)
    for dst, nbytes, stream in sends:
        program.permute(dst, nbytes, stream=stream)
        travels = (dst >= 0) & (dst != np.arange(ranks))
        received[dst[travels]] += nbytes[travels]
        sent += np.where(travels, nbytes, 0)

    spans = run(freeze(program, network))

    into = {f"gpu{rank}": rank for rank in range(ranks)}
    ingress, inward, outward = np.zeros(ranks), np.zeros(ranks), np.zeros(ranks)
    for link, (tail, head) in enumerate(network.links):
        if head in into:
            ingress[into[head]] += network.capacity[link]
            inward[into[head]] += spans.link_bytes[link]
        if tail in into:
            outward[into[tail]] += spans.link_bytes[link]
    assert (inward == received).all()
    assert (outward == sent).all()
    assert spans.makespan >= (received / ingress).max() * (1 - 1e-12)
    assert spans.makespan >= (spans.link_bytes / network.capacity[:-1]).max() * (1 - 1e-12)


@pytest.mark.parametrize("other", [8, 9, 15])
def test_another_node_is_reached_through_the_nics_whichever_gpu_it_is(other):
    # GPU 7 to GPU 8 differs in node and in place; it must not be charged to NVLink.
    network = Network(two_level(16))
    (route,) = network.route([7], [other])
    assert [network.links[link] for link in route] == [("gpu7", "fabric"), ("fabric", f"gpu{other}")]

    program = Program(16)
    program.permute(one_send(16, 7, other), 8 * MiB)
    assert run(freeze(program, network)).makespan == pytest.approx(2 * us + 8 * MiB / 50e9, rel=1e-12)


def test_a_ring_over_two_nodes_is_as_slow_as_its_nics():
    # charged to NVLink it would be 16 computes of 100 us: 1600 us, and look compute-bound
    program = ring_attention(16, 100 * us, 8 * MiB)
    end = run(freeze(program, Network(two_level(16)))).makespan
    assert end == pytest.approx(15 * (2 * us + 8 * MiB / 50e9) + 100 * us, rel=1e-12)


def test_neighbours_on_a_node_use_nvlink():
    network = Network(two_level(16))
    kinds = [{network.kinds[link] for link in row} for row in network.route(np.arange(16), shift(16))]
    assert kinds == [{"fabric"} if rank in (7, 15) else {"nvlink"} for rank in range(16)]
