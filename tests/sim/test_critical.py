"""The critical path: it touches from 0 to the end, and names what bound each piece."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms import find
from algorithms.ir import Attention, Mesh
from algorithms.ways import DEFAULT
from sim import engine, fastest, maxplus
from sim import simulate as simulation
from sim.critical import critical_path
from sim.engine import run
from sim.fastest import run_fastest
from sim.faults import Fault
from sim.jitter import Jitter
from sim.lower import lower
from sim.network import Network
from sim.program import Program, freeze
from sim.simulate import Site, simulate
from sim.summary import by_kind
from tests.sim.drawn import meshed, programs
from tests.sim.graphs import MiB, one_send, shared_nic, star, two_level, us
from topologies.basic import switch
from topologies.dgx import dgx_h100
from topologies.units import GB, TFLOP, ms


def walked(program, graph):
    frozen = freeze(program, Network(graph))
    spans = run(frozen)
    return critical_path(frozen, spans, lambda op: ("compute", f"op {op}")), spans


@given(st.one_of(programs(), meshed()), st.sampled_from([star, two_level, shared_nic]))
def test_the_pieces_touch_from_the_start_to_the_end(program, graph):
    path, spans = walked(program, graph(program.ranks))

    ends = [0.0, *(piece.end for piece in path.pieces)]
    assert [piece.begin for piece in path.pieces] == ends[:-1]
    assert ends[-1] == spans.makespan
    assert all(piece.seconds > 0 for piece in path.pieces)
    assert sum(seconds for _, seconds in path.totals()) == pytest.approx(spans.makespan, rel=1e-12)


def test_a_ring_bound_by_its_links_is_latency_and_one_link_after_another():
    # hop------|hop------|hop------|attend|
    schedule = find("ring")["prefill"](Attention(8, 8, 64, 4096, 4096), Mesh(ring=4))
    about = simulate(schedule, switch(4, 1 * GB, 1 * us, 1000 * TFLOP), path=True).about["critical_path"]

    totals = {row["bound"]: row["seconds"] for row in about["totals"]}
    hop = 2 * 8 * 1024 * 64 * 2 / 1e9
    assert totals["latency"] == pytest.approx(3 * 2 * us)
    assert totals["compute"] == pytest.approx(4 * 8 * 64 * 1024 * 1024 / 1e15)
    assert sum(seconds for bound, seconds in totals.items() if bound.startswith("link")) == pytest.approx(3 * hop)
    assert not any("shared" in bound for bound in totals)


def test_a_link_that_flows_share_says_by_how_many():
    # four GPUs of a machine send through its one NIC
    program = Program(8)
    program.permute([4, 5, 6, 7, -1, -1, -1, -1], 10 * MiB)
    path, _ = walked(program, shared_nic(8))

    assert path.totals()[0][0] in (
        "link nvswitch0 -> fabric, shared by 4 flows",
        "link fabric -> nvswitch1, shared by 4 flows",
    )


def test_the_path_moves_to_the_rank_that_was_waited_for():
    # rank 0  compute---------|send to 2--|
    # rank 2  .................receive----|compute|
    program = Program(3)
    first = program.compute([100 * us, 30 * us, 0])
    sent = program.permute(one_send(3, 0, 2), MiB, after=[first])
    program.compute([0, 0, 50 * us], after=[sent])
    path, _ = walked(program, star(3))

    assert [(piece.bound.partition(" ")[0], piece.rank) for piece in path.pieces] == [
        ("compute", 0),
        ("latency", 2),
        ("link", 2),
        ("compute", 2),
    ]
    assert path.crossings == 1


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"faults": [Fault("late", "gpu:5", 2 * ms)]},
        {"faults": [Fault("slow", "gpu:3", 0.5, 1 * ms, 3 * ms), Fault("background", "nvlink", 0.5)]},
        {"jitter": Jitter(0.1)},
    ],
)
def test_it_holds_under_faults_and_jitter_too(how):
    schedule = find("attention2d")["prefill"](Attention(16, 4, 64, 1 << 15, 1 << 15), Mesh(row=4, col=4))
    timeline = simulate(schedule, dgx_h100(2), path=True, **how)

    pieces = timeline.about["critical_path"]["pieces"]
    assert pieces[0]["begin"] == 0
    assert pieces[-1]["end"] == timeline.makespan
    assert all(a["end"] == b["begin"] for a, b in pairwise(pieces))
    if "faults" in how and how["faults"][0].what == "late":
        assert pieces[0]["bound"] == "late start"


def test_a_link_that_was_down_for_a_while_is_named_as_such():
    schedule = find("ring")["prefill"](Attention(8, 8, 64, 4096, 4096), Mesh(ring=4))
    cluster = switch(4, 1 * GB, 1 * us, 1000 * TFLOP)
    faults = [Fault("down", "link:gpu2-switch", begin=1 * ms, end=5 * ms)]

    totals = simulate(schedule, cluster, path=True, faults=faults).about["critical_path"]["totals"]

    assert totals[0]["bound"] in ("link gpu2 -> switch, slow or down", "link switch -> gpu2, slow or down")
    assert totals[0]["seconds"] > 4 * ms


def test_alike_neighbours_are_one_piece():
    program = Program(1)
    for _ in range(3):
        program.compute(1 * us)
    path, spans = walked(program, star(1))

    assert [(piece.op, piece.end) for piece in path.pieces] == [("op 0 to op 2", spans.makespan)]
    assert np.isclose(path.record()["totals"][0]["seconds"], 3 * us)


def path_of(frozen, spans):
    return critical_path(frozen, spans, lambda op: ("compute", f"op {op}"))


def frozen_of(name, mask, layout, n, **axes):
    """An algorithm on 64 H100s."""
    schedule = find(name)["prefill"](Attention(8, 8, 64, n, n, mask=mask, layout=layout), Mesh(**axes))
    site = Site(dgx_h100(8))
    return freeze(lower(schedule, site.machine, DEFAULT).program, site.network)


@pytest.mark.parametrize(
    "case",
    [
        ("ring", "full", "contiguous", 1 << 20),
        ("ring", "causal", "zigzag", 1 << 20),
        ("ring", "causal", "zigzag", 1 << 13),  # bound by its links
        ("attention2d", "full", "contiguous", 1 << 20),
        ("attention2d", "causal", "zigzag", 1 << 20),
        ("attention2d", "causal", "zigzag", 1 << 14),
    ],
)
def test_the_path_of_classes_is_that_of_ranks(case, monkeypatch):
    monkeypatch.setattr(fastest, "SMALL", 0)
    frozen = frozen_of(*case, **({"ring": 64} if case[0] == "ring" else {"row": 8, "col": 8}))
    spans = run_fastest(frozen, "path")

    assert spans.how.startswith("folded to")
    assert path_of(frozen, spans) == path_of(frozen, run(frozen))


@given(meshed(), st.sampled_from([star, two_level, shared_nic]))
def test_the_path_is_the_same_however_the_times_were_found(program, graph):
    frozen = freeze(program, Network(graph(program.ranks)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fastest, "SMALL", 0)
        patch.setattr(maxplus, "WHOLE", 0)
        patch.setattr(maxplus, "BATCH", 2 * program.ranks)
        spans = run_fastest(frozen, "path")
        assert path_of(frozen, spans) == path_of(frozen, run(frozen))


@pytest.mark.parametrize("n", [(1 << 20) + 1, 8200 * 64 + 77])
def test_the_path_of_an_uneven_ring_is_found_by_running_stretches_again(n, monkeypatch):
    frozen = frozen_of("ring", "causal", "zigzag", n, ring=64)
    monkeypatch.setattr(maxplus, "BATCH", 64 * 16)
    full = run_fastest(frozen, "path")
    monkeypatch.setattr(maxplus, "WHOLE", 0)
    short = run_fastest(frozen, "path")

    assert (full.how, full.start.ndim, short.how, short.start.ndim) == ("max-plus", 2, "max-plus", 1)
    assert path_of(frozen, short) == path_of(frozen, full) == path_of(frozen, run(frozen))


@pytest.mark.parametrize("layout", ["zigzag", "contiguous"])
def test_a_run_too_large_to_keep_has_the_same_path_and_the_same_sums(layout, monkeypatch):
    problem = Attention(8, 8, 64, 1 << 18, 1 << 18, mask="causal", layout=layout)
    schedule = find("ring")["prefill"](problem, Mesh(ring=64))
    full = simulate(schedule, dgx_h100(8), path=True)
    monkeypatch.setattr(simulation, "FULL_RECORD", 0)
    short = simulate(schedule, dgx_h100(8), path=True)

    path = short.about["critical_path"]
    assert short.extent
    assert path == full.about["critical_path"]
    assert sum(row["seconds"] for row in path["totals"]) == pytest.approx(short.makespan, rel=1e-12)
    assert by_kind(schedule, short) == by_kind(schedule, full)


def test_why_there_is_none_is_said(monkeypatch):
    schedule = find("ulysses")["prefill"](Attention(64, 64, 64, 1 << 18, 1 << 18), Mesh(ulysses=64))
    monkeypatch.setattr(simulation, "FULL_RECORD", 0)
    monkeypatch.setattr(engine, "KEPT", 0)
    about = simulate(schedule, dgx_h100(8), path=True, faults=[Fault("slow", "gpu:3", 0.5, 1 * ms, 3 * ms)]).about

    assert "critical_path" not in about
    assert "event by event" in about["no_critical_path"]
