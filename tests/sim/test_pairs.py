"""The bandwidth of a pair is that of the narrowest link on its route."""

import numpy as np
import pytest

import topologies
from sim.network import Network
from sim.pairs import MOST_MACHINES, pairs
from topologies.dgx import dgx_h100
from topologies.units import GB


def test_every_two_gpus_of_an_nvswitch_have_its_links():
    found = pairs(Network(dgx_h100(1)))

    assert found.by == "GPU"
    assert np.isnan(found.rates.diagonal()).all()
    assert set(found.rates[~np.eye(8, dtype=bool)]) == {450 * GB}


def test_two_machines_have_nvlink_within_and_nics_across():
    found = pairs(Network(dgx_h100(2)))

    assert found.rates[0, 7] == found.rates[8, 15] == 450 * GB
    assert found.rates[0, 8] == found.rates[15, 0] == 50 * GB


def test_many_gpus_are_shown_machine_by_machine():
    found = pairs(Network(dgx_h100(128)))

    assert (found.by, found.total, len(found.names)) == ("machine", 128, MOST_MACHINES)
    assert (found.names[0], found.names[-1]) == ("node0", "node127")
    assert set(found.rates.diagonal()) == {450 * GB}
    assert set(found.rates[~np.eye(MOST_MACHINES, dtype=bool)]) == {50 * GB}


def test_the_two_ways_may_differ():
    graph = topologies.find("switch")(2, 100 * GB)
    graph.edges["gpu0", "switch"]["bandwidth"] = 10 * GB
    found = pairs(Network(graph))

    assert (found.rates[0, 1], found.rates[1, 0]) == (10 * GB, 100 * GB)


def test_gpus_on_the_same_quad_of_a_dgx1_are_as_fast_as_their_nvlinks():
    rates = pairs(Network(topologies.find("dgx1_v100")())).rates

    assert rates[0, 1] == pytest.approx(25 * GB)
    assert rates[0, 3] == pytest.approx(50 * GB)
    assert rates[0, 5] < 25 * GB  # no NVLink between them: over PCIe and the sockets
