"""Lowering at scale: what is worked out once for ranks that are alike is what each would have got by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms import find
from algorithms.ir import Attention, Mesh
from algorithms.ir.expr import ScheduleError
from algorithms.ops import work
from algorithms.ways import DEFAULT
from algorithms.ways.transfers import transfers
from sim.lower import lower
from sim.program import Program
from sim.rows import Row, coded, row, total
from sim.simulate import Site
from sim.tiles import Tiles
from topologies.basic import switch
from topologies.dgx import dgx_h100

MESHES = [
    ("ring", {"ring": 8}),
    ("ring", {"ring": 4, "tp": 2}),
    ("attention2d", {"row": 2, "col": 4}),
    ("all_gather_kv", {"cp": 8}),
    ("ulysses", {"ulysses": 8}),
    ("usp", {"ring": 2, "ulysses": 4}),
]
GRAPHS = [switch(8), dgx_h100(1)]


@given(
    st.sampled_from(MESHES),
    st.sampled_from(GRAPHS),
    st.sampled_from(["full", "causal"]),
    st.sampled_from(["contiguous", "zigzag", "striped"]),
    st.one_of(st.integers(8, 200), st.just(4096)),
    st.sampled_from(["prefill", "train"]),
)
def test_each_rank_gets_its_own_seconds_and_bytes(case, graph, mask, layout, n, phase):
    (name, axes), site = case, Site(graph)
    programs = find(name)
    if phase not in programs:
        return
    try:
        schedule = programs[phase](Attention(16, 8, 64, n, n, mask=mask, layout=layout, phase=phase), Mesh(**axes))
    except ScheduleError:
        return
    tiles, mesh = Tiles(site.machine, schedule.problem, schedule.mesh), schedule.mesh
    for op in schedule.ops:
        if op.stream is None and op.kind != "load":
            alone = site.machine.seconds(op, schedule.problem, mesh.grid(), mesh.shape)
            seconds, flop, by = tiles.seconds(op)
            assert (np.broadcast_to(seconds.at(), 8) == mesh.spread(alone)).all()
            assert flop == mesh.spread(work(op, mesh.grid()).flop).sum()
            assert by.sum() == pytest.approx(mesh.spread(alone).sum())
    lowered = lower(schedule, site.machine, DEFAULT)
    for op, sent in zip(schedule.ops, lowered.sent, strict=True):
        moved = list(transfers(op, mesh)) if op.stream is not None else []
        assert len(moved) == len(sent)
        for one, own in zip(moved, sent, strict=True):
            assert (np.broadcast_to(own.at(), 8) == one.nbytes).all()


@pytest.mark.parametrize("mask, layout, n", [("full", "contiguous", 1 << 20), ("causal", "zigzag", 1 << 20)])
def test_a_symmetric_ring_holds_no_number_a_rank(mask, layout, n):
    schedule = find("ring")["prefill"](Attention(8, 8, 64, n, n, mask=mask, layout=layout), Mesh(ring=256))
    program = lower(schedule, Site(dgx_h100(32)).machine, DEFAULT).program
    assert all(one.is_shared for one in program.rows)
    assert len(program.rows) < 10
    assert len(program.patterns) == 1


def test_an_uneven_ring_holds_a_code_a_rank():
    schedule = find("ring")["prefill"](Attention(8, 8, 64, 999, 999, mask="causal"), Mesh(ring=8))
    rows = lower(schedule, Site(switch(8)).machine, DEFAULT).program.rows
    assert all(one.is_shared or one.code is not None for one in rows)


def test_rows_are_as_short_as_they_are():
    assert row([3, 3, 3]).is_shared
    assert row([3, 3, 4]).at().tolist() == [3, 3, 4]
    code = np.array([0, 2, 0])
    assert coded(np.array([1.0, 9.0, 1.0]), code, np.array([0, 2])).is_shared
    assert coded(np.array([1.0, 9.0, 2.0]), code, np.array([0, 2])).at(np.array([1, 2])).tolist() == [2, 1]
    assert total([row(1), row([1, 2]), row(1)]).tolist() == [3, 4]


def test_equal_numbers_share_a_row():
    program = Program(2)
    for cost in (1.0, np.array([1.0, 1.0]), Row(np.asarray(1.0)), 1):
        program.compute(cost)
    program.compute([1.0, 2.0])
    assert program.row_of == [0, 0, 0, 0, 1]
