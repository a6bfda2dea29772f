"""Programs that Hypothesis draws."""

import numpy as np
from hypothesis import strategies as st

from sim.program import Program
from tests.sim.graphs import MiB, us


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
