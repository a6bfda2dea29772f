"""Programs and what freezing makes of them."""

import numpy as np
import pytest

from sim.engine import run
from sim.network import Network
from sim.program import Program, freeze
from sim.rows import Row
from tests.sim.graphs import shift, star


def test_equal_numbers_and_the_same_array_share_a_row():
    program, cost = Program(3), np.array([1.0, 2.0, 3.0])
    for value in (cost, 0.5, cost, 0.5, 0.25):
        program.compute(value)
    assert program.row_of == [0, 1, 0, 1, 2]


def test_equal_patterns_share_a_row():
    program, dst = Program(3), shift(3)
    for pattern in (dst, shift(3), [1, 2, 0], shift(3, 2), dst):
        program.permute(pattern, 8)
    assert program.pattern_of == [0, 0, 0, 1, 0]


def test_a_weight_makes_it_another_pattern():
    program = Program(3)
    for weight in (1, 5, np.array([1, 5, 7]), 5, 1):
        program.permute([1, 2, 0], 8, weight=weight)
    program.compute(1.0)
    assert program.pattern_of == [0, 1, 2, 1, 0, 0]
    assert freeze(program, Network(star(3))).plan.claim.tolist() == [1, 1, 1, 5, 5, 5, 1, 5, 7]


def test_an_op_may_wait_for_any_number_of_ops():
    # Only the last op of each other stream counts: streams are in order.
    program = Program(2)
    ops = [program.compute(1.0, stream=k % 3) for k in range(9)]
    program.compute(1.0, after=ops, stream=1)
    program.compute(1.0, after=ops, stream=4)
    plan = freeze(program, Network(star(2))).plan
    needs = [
        {(s, p) for s, p in zip(plan.need_stream[op], plan.need_position[op], strict=True) if p >= 0} for op in (9, 10)
    ]
    assert needs == [{(0, 2), (2, 2)}, {(0, 2), (1, 2), (2, 2)}]


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda p: p.compute(-1.0), "cost must be finite and not negative: op 0 has -1 on rank 0"),
        (
            lambda p: p.compute([0, float("nan")]),
            "cost must be finite and not negative: op 0 has nan on rank 1",
        ),
        (lambda p: p.compute([1, 2, 3]), r"cost must be one number or one a rank \(2\), got shape \(3,\)"),
        (lambda p: p.compute(1.0, after=[0]), r"an op waits for earlier ops: op 0 has after=\(0,\)"),
        (lambda p: p.compute(1.0, stream=-1), "stream must not be negative: op 0 has -1"),
        (lambda p: p.permute([1, 0], [8, 0.5]), "nbytes must be whole numbers: op 0 has 0.5 on rank 1"),
        (lambda p: p.permute([1], 8), r"dst must have one entry a rank \(2\): op 0 has shape \(1,\)"),
        (lambda p: p.permute([1, 2], 8), r"dst must be -1 \(none\) or 0 to 1: op 0 has 1 to 2"),
        (lambda p: p.permute([1, 1], 8), "dst must name a rank once: op 0 names 1 2 times"),
        (lambda p: p.permute([1, 0], 8, weight=0), f"weight must be 1 to {2**40}: op 0 has 0 to 0"),
        (lambda p: p.permute([1, 0], 8, weight=[1, 2**41]), f"weight must be 1 to {2**40}: op 0 has 1 to {2**41}"),
        (lambda p: p.permute([1, 0], 8, weight=0.5), r"weight must be one whole number or one a rank \(2\): op 0"),
        (lambda p: p.permute([1, 0], 8, weight=[1, 2, 3]), r"weight must be one whole number or one a rank \(2\)"),
    ],
)
def test_an_absurd_op_is_refused_in_one_line(add, message):
    with pytest.raises(ValueError, match=message) as caught:
        add(Program(2))
    assert "\n" not in str(caught.value)


def test_a_program_must_fit_the_cluster():
    with pytest.raises(ValueError, match=r"program needs 5 ranks: cluster star\(4\) has 4 GPUs placed"):
        freeze(Program(5), Network(star(4)))
    with pytest.raises(ValueError, match="ranks must be at least 1, got 0"):
        Program(0)


def test_a_program_that_memory_cannot_hold_is_refused_before_it_fills_it(monkeypatch):
    monkeypatch.setattr("sim.program._free_memory", lambda: 10 * 40 * 4)
    program = Program(4)
    for step in range(10):
        program.permute([1, 2, 3, 0], np.arange(4) + step)

    with pytest.raises(ValueError, match="no memory for more than 10 steps of 4 ranks"):
        program.permute([1, 2, 3, 0], np.arange(4) + 10)


def test_a_number_that_a_code_chooses_takes_little_memory(monkeypatch):
    monkeypatch.setattr("sim.program._free_memory", lambda: 10 * 40 * 4)
    program = Program(4)
    for step in range(100):
        program.compute(Row(np.array([1.0, 2.0 + step]), np.array([0, 1, 1, 0], np.uint8)))

    with pytest.raises(ValueError, match="no memory for more than 50 steps of 4 ranks, 8 bytes each"):
        run(freeze(program, Network(star(4))))
