"""Trace: the JSON is what viewers of trace events take, and every arrow has both its ends."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import algorithms
from algorithms.ir import Attention, Mesh
from algorithms.ir.timeline import whole
from sim.simulate import simulate
from sim.trace_events import write
from topologies.basic import switch

PROBLEM = Attention(8, 4, 64, 4096, 4096, mask="causal", layout="zigzag")
CASES = [("ring", {"ring": 4}), ("attention2d", {"row": 2, "col": 2}), ("ulysses", {"ulysses": 4})]


def traced(tmp_path, name, axes, **options):
    schedule = algorithms.find(name)["prefill"](PROBLEM, Mesh(**axes))
    timeline = simulate(schedule, switch(schedule.mesh.size))
    path = tmp_path / "trace.json"
    said = write(path, schedule, timeline, **options)
    return schedule, timeline, json.loads(path.read_text()), said


def of(trace, phase):
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


@pytest.mark.parametrize("name, axes", CASES)
def test_a_slice_stands_for_each_op_on_each_rank_when_it_ran(tmp_path, name, axes):
    schedule, timeline, trace, _ = traced(tmp_path, name, axes)

    slices = {(event["args"]["op"], event["pid"]): event for event in of(trace, "X")}
    assert set(slices) == {(op.id, rank) for op in schedule.ops if op.kind != "load" for rank in range(4)}
    for (op, rank), event in slices.items():
        assert event["ts"] == pytest.approx(timeline.start[op, rank] * 1e6, abs=1e-3)
        assert event["dur"] >= 0
        assert event["ts"] + event["dur"] == pytest.approx(timeline.end[op, rank] * 1e6, abs=2e-3)
        assert event["name"] == f"{schedule.ops[op].kind} {op}"


@pytest.mark.parametrize("name, axes", CASES)
def test_every_arrow_starts_in_a_senders_slice_and_ends_in_the_receivers(tmp_path, name, axes):
    _, _, trace, _ = traced(tmp_path, name, axes)

    starts, ends = of(trace, "s"), of(trace, "f")
    assert len(starts) > 0
    assert sorted(event["id"] for event in starts) == sorted(event["id"] for event in ends)
    assert len({event["id"] for event in starts}) == len(starts)
    slices = [(e["pid"], e["tid"], e["ts"], e["ts"] + e["dur"]) for e in of(trace, "X")]
    for event in starts + ends:
        place = event["pid"], event["tid"]
        assert any(
            where == place and begin <= event["ts"] <= end for *where_, begin, end in slices if (where := tuple(where_))
        )
    by_id = {event["id"]: event for event in starts}
    assert all(event["ts"] >= by_id[event["id"]]["ts"] and event["bp"] == "e" for event in ends)
    assert all(event["pid"] != by_id[event["id"]]["pid"] for event in ends)


@pytest.mark.parametrize("name, axes", CASES)
def test_arrows_carry_the_bytes_that_the_timeline_counts(tmp_path, name, axes):
    _, timeline, trace, _ = traced(tmp_path, name, axes)

    sent = Counter()
    for event in of(trace, "s"):
        sent[event["pid"]] += event["args"]["bytes"]
    assert [sent[rank] for rank in range(4)] == timeline.sent_per_rank().tolist()
    slices = Counter()
    for event in of(trace, "X"):
        slices[event["pid"]] += event["args"]["bytes"]
    assert slices == sent


def test_slices_of_one_row_do_not_overlap(tmp_path):
    _, _, trace, _ = traced(tmp_path, "ring", {"ring": 8})

    rows = {}
    for event in of(trace, "X"):
        rows.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in rows.values():
        spans.sort()
        assert all(after[0] >= before[1] - 1e-6 for before, after in pairwise(spans))


def test_rows_are_named_and_compute_stands_first(tmp_path):
    schedule = algorithms.find("attention2d")["prefill"](PROBLEM, Mesh(row=2, col=2))
    path = tmp_path / "trace.json"
    write(path, schedule, simulate(schedule, switch(4)), gpus=["a", "b", "c", "d"])

    names = [e for e in of(json.loads(path.read_text()), "M") if e["name"] in ("process_name", "thread_name")]
    assert [e["args"]["name"] for e in names if e["pid"] == 1] == [
        "rank 1 (b)",
        "compute",
        "communication rowxcol",
        "communication col",
        "communication row",
    ]
    assert {e["args"]["name"] for e in names if e.get("tid") == 0} == {"compute"}


def test_flop_of_all_slices_are_those_of_the_visible_pairs(tmp_path):
    _, _, trace, _ = traced(tmp_path, "ring", {"ring": 4})

    pairs = 4096 * 4097 // 2
    assert sum(event["args"]["flop"] for event in of(trace, "X")) == 4 * 8 * 64 * pairs


def test_a_trace_too_large_keeps_the_first_ranks_and_says_so(tmp_path):
    _, _, whole_trace, _ = traced(tmp_path, "ring", {"ring": 8})
    size = len(of(whole_trace, "X")) + len(of(whole_trace, "s")) + len(of(whole_trace, "f"))

    _, _, trace, said = traced(tmp_path, "ring", {"ring": 8}, most=size // 2)

    kept = {event["pid"] for event in trace["traceEvents"]}
    assert kept == set(range(len(kept)))
    assert 1 <= len(kept) < 8
    assert said.endswith(f"events of ranks 0 to {len(kept) - 1} of 8")
    assert trace["otherData"]["kept"] in said
    assert sorted(e["id"] for e in of(trace, "s")) == sorted(e["id"] for e in of(trace, "f"))
    count = len(of(trace, "X")) + len(of(trace, "s")) + len(of(trace, "f"))
    assert count <= size // 2
    assert said.split(": ")[1].startswith(f"{count} events")


def test_a_timeline_of_extents_has_no_trace(tmp_path):
    schedule = algorithms.find("ring")["prefill"](PROBLEM, Mesh(ring=4))
    timeline = simulate(schedule, switch(4), record="extent")

    with pytest.raises(ValueError, match="needs the times of every rank"):
        write(tmp_path / "trace.json", schedule, timeline)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(ValueError, match="cannot write"), whole(tmp_path / "no" / "out"):
        pass


def test_whole_numbers_of_nanoseconds_are_kept(tmp_path):
    _, timeline, trace, _ = traced(tmp_path, "ring", {"ring": 4})

    ends = max(event["ts"] + event["dur"] for event in of(trace, "X"))
    assert ends == pytest.approx(np.rint(timeline.makespan * 1e9) / 1e3)
    assert Path(tmp_path / "trace.json").read_text().endswith("]}\n")
