"""Nothing silent: what moves nothing, takes long or never ends is said."""

from types import SimpleNamespace

import numpy as np
import pytest

from algorithms import find
from algorithms.ir import Attention, Mesh
from algorithms.ir.job import Job
from sim import estimate
from sim.commands import run
from sim.compare import compare
from sim.lower import lower
from sim.moved import NothingMovedError, check_moved
from sim.rows import Row
from sim.simulate import Site, simulate
from sim.stall import StallError, Wait
from topologies.basic import switch
from topologies.dgx import dgx_h100


def traced(name, **axes):
    return find(name)["prefill"](Attention(16, 4, 64, 4096, 4096), Mesh(**axes))


def test_an_op_without_a_byte_is_an_error_with_its_number():
    schedule = traced("all_gather_kv", cp=4)
    lowered = lower(schedule, Site(switch(4)).machine, {})
    (op,) = (op for op in schedule.ops if op.kind == "all_gather")
    check_moved(lowered)

    lowered.sent[op.id] = (Row(np.zeros(())),)

    with pytest.raises(NothingMovedError, match=rf"op {op.id} all_gather over cp moves nothing on any of its 4 ranks"):
        check_moved(lowered)


@pytest.mark.parametrize("axes", [{"row": 1, "col": 4}, {"row": 4, "col": 1}, {"row": 1, "col": 1}])
def test_a_permute_that_leaves_blocks_where_they_are_is_no_error(axes):
    assert simulate(traced("attention2d", **axes), switch(4)).makespan > 0


def test_a_long_run_says_so_first(monkeypatch):
    said, schedule = [], traced("ulysses", ulysses=16)
    simulate(schedule, switch(16), notice=said.append)
    monkeypatch.setattr("sim.fastest.SMALL", 0)
    monkeypatch.setattr("sim.fastest.fold", lambda frozen: None)
    monkeypatch.setattr("sim.fastest.rates", lambda frozen: None)
    simulate(schedule, switch(16), notice=said.append)
    assert said == []

    monkeypatch.setattr(estimate, "LONG", 1e-6)
    simulate(schedule, switch(16), notice=said.append)

    assert len(said) == 1
    assert said[0].startswith("this run is long: ")
    assert "ops on 16 ranks, roughly " in said[0]


def test_a_large_run_says_so_first(monkeypatch):
    frozen = SimpleNamespace(
        bare=SimpleNamespace(kind=np.zeros(1000), length=np.zeros(2), route=np.zeros((4, 6))), ranks=4, rows=(1, 2)
    )
    assert estimate.warning(frozen, True) == ""

    monkeypatch.setattr(estimate, "memory", lambda: 100_000)

    assert "KiB of 97.7 KiB of memory" in estimate.warning(frozen, True)
    assert estimate.warning(frozen, False) == ""


def test_a_stall_is_an_answer_in_one_line_and_status_1(monkeypatch, capsys):
    def stall(*_, **__):
        raise StallError(
            1.0, [Wait(0, 3, 7, "rank 4, which is at attend 6 on stream compute", "permute 7 on stream ring")]
        )

    monkeypatch.setattr("sim.repeats.simulate", stall)
    small = ["--cluster", "switch", "--gpus", "8", "--heads", "8", "--head-dim", "64", "--seq", "4K"]

    assert run(["simulate", "ring", *small]) == 1
    assert capsys.readouterr().err == (
        "ringloom: nothing moves after 1 s: permute 7 on stream ring rank 3 waits for rank 4, "
        "which is at attend 6 on stream compute\n"
    )


def test_a_run_that_takes_long_because_its_flows_crowd_the_links_is_left_out_of_several_and_said(monkeypatch):
    monkeypatch.setattr("sim.fastest.SMALL", 0)
    monkeypatch.setattr("sim.compare.LONG", 0.01)
    problem, site = Attention(16, 4, 64, 4099, 4099, mask="causal"), Site(dgx_h100(2))

    both = compare({name: find(name) for name in ("ring", "tasp")}, problem, Job(1, 16, 1), site)
    alone = compare({"tasp": find("tasp")}, problem, Job(1, 16, 1), site)

    assert {one.algorithm for one in both.results} == {"ring"}
    (left_out,) = {one.reason for one in both.inapplicable}
    assert left_out.startswith("15 streams a rank share links: it takes roughly ")
    assert left_out.endswith(" to simulate, and is left out where that is over 10.0 ms; name it alone")
    assert {one.algorithm for one in alone.results} == {"tasp"}


def test_what_is_too_crowded_is_lowered_in_one_layout_of_a_mesh(monkeypatch):
    lowered = []

    def noted(schedule, *more):
        lowered.append(schedule.name)
        return lower(schedule, *more)

    monkeypatch.setattr("sim.fastest.SMALL", 0)
    monkeypatch.setattr("sim.compare.LONG", 0.01)
    monkeypatch.setattr("sim.simulate.lower", noted)
    problem, site = Attention(16, 4, 64, 4099, 4099, mask="causal"), Site(dgx_h100(2))

    found = compare({name: find(name) for name in ("ring", "tasp")}, problem, Job(1, 16, 1), site)

    assert lowered == ["ring"] * 3 + ["tasp"]  # zigzag, striped and contiguous, but for what is refused
    assert [one.algorithm for one in found.inapplicable] == ["tasp"]


@pytest.mark.parametrize("streams, times", [(1, 1), (2, 1), (8, 8), (63, 496)])
def test_what_many_streams_add_to_a_run_is_said_too(streams, times):
    assert estimate.crowding(streams) == pytest.approx(times, rel=1e-3)
