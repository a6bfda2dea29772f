"""Summary: rows by kind add up to the schedule, and what is live at the peak adds up to the peak."""

import numpy as np
import pytest

import algorithms
from algorithms.ir import Attention, Mesh
from algorithms.ir.order import live_at_peak, peak_bytes
from sim.simulate import simulate
from sim.summary import at_peak, by_kind
from topologies.basic import switch

CASES = [
    ("ring", "prefill", {"ring": 5}),
    ("ring", "train", {"ring": 4}),
    ("attention2d", "prefill", {"row": 2, "col": 3}),
    ("usp", "prefill", {"ring": 3, "ulysses": 2}),
    ("tree", "decode", {"cp": 4}),
]


def traced(name, phase, axes):
    queries = 1 if phase == "decode" else 1001
    problem = Attention(8, 4, 64, queries, 1001, mask="causal", layout="zigzag", phase=phase)
    return algorithms.find(name)[phase](problem, Mesh(**axes))


@pytest.mark.parametrize("name, phase, axes", CASES)
def test_what_is_live_at_the_peak_adds_up_to_it_on_every_rank(name, phase, axes):
    schedule = traced(name, phase, axes)

    for rank, peak in enumerate(peak_bytes(schedule)):
        _, live = live_at_peak(schedule, rank)
        assert sum(one.nbytes for one in live) == peak


@pytest.mark.parametrize("name, phase, axes", CASES)
def test_rows_by_kind_cover_every_op_once(name, phase, axes):
    schedule = traced(name, phase, axes)
    timeline = simulate(schedule, switch(schedule.mesh.size))

    rows = by_kind(schedule, timeline)

    assert sum(row.ops for row in rows) == sum(op.kind != "load" for op in schedule.ops)
    assert len({(row.stream, row.kind) for row in rows}) == len(rows)
    assert max(row.last for row in rows) == timeline.makespan
    compute = [row.seconds for row in rows if row.stream == "compute"]
    assert max(compute) <= timeline.compute * (1 + 1e-12) <= sum(compute) * (1 + 1e-9)


def test_flop_of_a_causal_layer_are_four_widths_a_visible_pair_and_head():
    schedule = traced("ring", "prefill", {"ring": 5})

    rows = by_kind(schedule, simulate(schedule, switch(5)))

    assert sum(row.flop for row in rows) == 4 * 64 * 8 * (1001 * 1002 // 2)


def test_seconds_are_not_made_up_from_extents():
    schedule = traced("ring", "prefill", {"ring": 5})
    timeline = simulate(schedule, switch(5), record="extent")

    assert {row.seconds for row in by_kind(schedule, timeline)} == {None}


def test_the_fullest_rank_is_shown():
    schedule = traced("ring", "prefill", {"ring": 5})
    timeline = simulate(schedule, switch(5))

    rank, _, held = at_peak(schedule, timeline)

    assert timeline.peak[rank] == timeline.peak.max() == sum(row.nbytes for row in held)
    assert [row.nbytes for row in held] == sorted((row.nbytes for row in held), reverse=True)
    assert np.argmax(timeline.peak) == rank
