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
