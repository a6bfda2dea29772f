"""Measured bandwidths between two GPUs of a machine, large messages, all others idle."""

import numpy as np
import pytest

from sim.bandwidths import Bandwidths
from sim.flows import alone
from topologies.amd import frontier
from topologies.units import GB


def test_from_the_first_gcd_of_four_mi250_to_the_others():
    # github.com/amd/amd-lab-notes gpu-aware-mpi: osu_bw of 16 MiB by a copy kernel, GCD 0 to 1 .. 7. The sibling has
    # four links, 6 two and 2 one; 3, 4 and 5 are reached through a GCD and one link, 7 through a GCD and two.
    measured = np.array([142.2, 39.0, 36.9, 36.9, 35.0, 76.3, 68.8]) * GB

    reached = alone(Bandwidths(frontier(1)).network, np.zeros(7, np.int64), np.arange(1, 8))

    assert reached == pytest.approx(measured, rel=0.10)
