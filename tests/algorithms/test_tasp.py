"""TASP: part c of every block goes round cycle c, every link is used in every step, and every step is equal work."""

import numpy as np
import pytest

import algorithms
from algorithms.ir import Inapplicable, Mesh
from algorithms.ir.expr import Const
from algorithms.ops import work
from algorithms.ways.transfers import transfers
from tests.algorithms.tracing import small

SIZES = [2, 3, 5, 7, 8, 9, 10]


def schedule(p, n, phase="prefill", layout="zigzag"):
    program = algorithms.find("tasp")[phase]
    return program(small(phase=phase, query_len=n, key_len=n, layout=layout), Mesh(ring=p))


def permutes(traced):
    return [op for op in traced.ops if op.kind == "permute"]


@pytest.mark.parametrize("p", SIZES)
def test_every_step_uses_every_link_of_a_full_mesh_once(p):
    traced = schedule(p, 4 * p * p)
    everything = [(a, b) for a in range(p) for b in range(p) if a != b]
    moves = [transfer for op in permutes(traced) for transfer in transfers(op, traced.mesh)]

    assert len(moves) == (p - 1) ** 2
    for step in range(p - 1):
        each = moves[step * (p - 1) : (step + 1) * (p - 1)]
        assert sorted((src, int(dst)) for one in each for src, dst in enumerate(one.dst)) == everything


@pytest.mark.parametrize("layout", ["zigzag", "striped", "contiguous"])
def test_a_part_of_an_even_block_has_the_same_length_on_every_rank(layout):
    traced = schedule(5, 10 * 13, layout=layout)  # 26 tokens a rank, in 4 parts
    parts = [v for op in permutes(traced) for v in op.outputs]

    assert all(isinstance(v.type.rows, Const) for v in parts)
    for v in parts:
        assert (v.tokens.runs(traced.mesh.grid()).count.sum(-1) == v.type.rows.value).all()


@pytest.mark.parametrize("p", SIZES)
def test_each_cycle_is_a_lane_of_its_own(p):
    lanes = [op.lane for op in permutes(schedule(p, 4 * p * p, "train"))]

    assert lanes == list(range(p - 1)) * (len(lanes) // (p - 1))


@pytest.mark.parametrize("kind", ["attend", "attend_backward"])
@pytest.mark.parametrize("layout, n", [("zigzag", 0), ("zigzag", 37), ("striped", 0), ("striped", 37)])
@pytest.mark.parametrize("p", SIZES)
def test_all_ranks_have_equal_work_in_every_step(p, layout, n, kind):
    # A zigzag part has its share of both runs: whatever rank it comes from, half of its tile is visible. In striped
    # layout, and where some runs are one longer than others, tiles differ by less than a column a part.
    side = 20 * (p - 1)
    traced = schedule(p, n + side * p, "train", layout)
    found = np.array([work(op, traced.mesh.grid()).pairs for op in traced.ops if op.kind == kind])

    assert found.shape == (p, p)
    spread, rows = found.max(1) - found.min(1), (n + side * p) / p
    assert (spread <= (0 if layout == "zigzag" and n == 0 else p * rows)).all()


@pytest.mark.parametrize("p", [4, 6, 73])
@pytest.mark.parametrize("phase", ["prefill", "train"])
def test_numbers_of_ranks_without_such_cycles_are_refused(p, phase):
    with pytest.raises(Inapplicable, match=f"between {p} ranks" if p < 7 else "made for up to 72 ranks, got 73"):
        schedule(p, 100, phase)


@pytest.mark.parametrize("p", [3, 5, 8])
@pytest.mark.parametrize("n", [1, 3, 41])
def test_every_visible_pair_is_attended_once_at_any_length(p, n):
    traced = schedule(p, n)

    attended = sum(work(op, traced.mesh.grid()).pairs.sum() for op in traced.ops if op.kind == "attend")

    assert attended == n * (n + 1) // 2
