"""Measured costs: they come out as they went in, are straight in between, and say when they are left."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms import find
from algorithms.ir import Attention, Mesh
from algorithms.ir.environment import difference
from algorithms.ir.expr import Const
from algorithms.ir.tokens import Block, Runs
from algorithms.ops.merge import work as merge_work
from algorithms.ring import ring_attention
from sim.curves import Curve, Surface
from sim.measured_attention import Attends, crossings
from sim.measured_machine import Measured
from sim.simulate import Site, simulate
from topologies.basic import switch
from topologies.files.graphs import read, write
from topologies.units import us

LINE, HEADS, DIM = 1 * us, 4, 64
PER_PAIR, FIXED, EDGE = 2e-9, 50 * us, 3e-7


def tile(mask, rows, keys, heads=HEADS, passes="fwd", dtype="float64"):
    """A row whose seconds follow a law that the model can hold exactly."""
    pairs = rows * (rows + 1) // 2 if mask == "cut" else rows * keys
    seconds = FIXED + heads * (PER_PAIR * pairs + (EDGE * rows if mask == "cut" else 0))
    shape = {"heads": heads, "rows": rows, "keys": keys, "pairs": pairs}
    return {"passes": passes, "mask": mask, "dtype": dtype, "head_dim": DIM, **shape, **times(seconds)}


def times(seconds):
    return {"seconds": seconds, "low": seconds, "high": 1.1 * seconds, "count": 9}


def sized(nbytes, seconds, **more):
    return {**more, "nbytes": nbytes, **times(seconds)}


def record(**changed):
    """Costs of a made-up machine, every law simple enough to be worked out by hand."""
    kernels = [tile(mask, n, m) for mask in ("full", "seen") for n, m in ((1, 512), (512, 512), (2048, 2048))]
    kernels += [tile("full", 1, 512, heads=1), tile("cut", 512, 512), tile("cut", 2048, 2048)]
    collectives = [
        sized(n, 20 * us + n / 2e9, kind=kind, how=how, dtype="float64", ranks=2)
        for kind, how in (("all_gather", ""), ("reduce_scatter", "merge"))
        for n in (1 << 10, 1 << 20, 1 << 26)
    ]
    glue = [sized(n, 5 * us + n / 4e9, kind="merge", dtype="float64") for n in (1 << 10, 1 << 26)]
    return {
        "schema": "ringloom.measured/1",
        "environment": {"date": "2026-01-02 03:04 UTC", "hosts": ["here"], "load_before": [0.5]},
        "kernels": kernels,
        "exchange": [sized(n, 10 * us + n / 1e9) for n in (1 << 10, 1 << 20, 1 << 24)],
        "collectives": collectives,
        "glue": [*glue, sized(1 << 20, 100 * us, kind="copy", dtype="uint8")],
        "gemm": [{"dtype": "float64", "flop_rate": 3e11, **times(1e-3)}],
        "overhead": {"line_s": LINE},
        **changed,
    }


def cluster(ranks=2, **changed):
    graph = switch(ranks, 1e9 * (1 << 24) / ((1 << 24) + 1e9 * 10 * us), 0.0, 3e11)
    for _, _, link in graph.edges(data=True):
        link["offloaded"] = False
    graph.graph["measured"] = record(**changed)
    return graph


def problem(n=1024, mask="full", **more):
    sizes = {"heads": HEADS, "kv_heads": HEADS, "head_dim": DIM, "query_len": n, "key_len": n}
    return Attention(**{**sizes, "dtype": "float64", "state_dtype": "float64", "mask": mask, **more})


def test_a_run_is_the_sum_of_what_was_measured():
    # attend|exchange|attend|merge: two of the tiles measured, an exchange of a size measured, a line each
    n = 1024
    timeline = simulate(ring_attention(problem(n), Mesh(ring=2)), cluster())

    attend = LINE + tile("full", n // 2, n // 2)["seconds"]
    exchange = 2 * LINE + Curve(*zip(*((r["nbytes"], r["seconds"]) for r in record()["exchange"]), strict=True)).at(
        2 * (n // 2) * HEADS * DIM * 8
    )
    nbytes = merge_work(
        next(op for op in ring_attention(problem(n), Mesh(ring=2)).ops if op.kind == "merge"), {}
    ).nbytes
    merge = LINE + Curve([1 << 10, 1 << 26], [5 * us + (1 << 10) / 4e9, 5 * us + (1 << 26) / 4e9]).at(nbytes)
    assert timeline.makespan == pytest.approx(2 * attend + float(exchange) + float(merge))


def test_collectives_take_what_the_library_took_after_all_have_met():
    schedule = find("attention2d")["prefill"](problem(), Mesh(row=1, col=2))
    timeline = simulate(schedule, cluster())

    assert timeline.about["ways"]["reduce_scatter"] == "native"
    gather = next(op for op in schedule.ops if op.kind == "all_gather" and op.over == ("col",))
    nbytes = 3 * 512 * HEADS * DIM * 8  # half goes in, all comes out
    expected = 2 * LINE + Curve(
        [1 << 10, 1 << 20, 1 << 26], [20 * us + n / 2e9 for n in (1 << 10, 1 << 20, 1 << 26)]
    ).at(nbytes)
    took = timeline.end[gather.id] - timeline.start[gather.id]
    assert took == pytest.approx(float(expected))
    assert (timeline.sent[gather.id] == 512 * HEADS * DIM * 8).all()


def test_a_way_that_is_asked_for_is_made_of_exchanges():
    schedule = find("attention2d")["prefill"](problem(), Mesh(row=1, col=2))

    ways = {"all_gather": "ring", "reduce_scatter": "ring"}
    assert simulate(schedule, cluster(), ways=ways).about["ways"] == ways


@pytest.mark.parametrize("rows, keys", [(512, 512), (700, 900), (2048, 2048), (1000, 512)])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_tiles_of_a_law_that_the_model_holds_are_predicted_exactly(rows, keys, mask):
    known = Attends.of(record()["kernels"]).of_op("fwd", "float64", DIM, mask == "full")
    whole = known.seconds(np.array(rows), np.array(keys), np.array(rows * keys), np.array(0))
    cut = known.seconds(np.array(rows), np.array(rows), np.array(rows * rows / 2), np.array(rows))

    assert known.fixed == pytest.approx(FIXED)
    assert whole == pytest.approx(PER_PAIR * rows * keys)
    if mask == "causal":
        assert cut == pytest.approx(PER_PAIR * rows * rows / 2 + EDGE * rows)


@pytest.mark.parametrize("layout", ["contiguous", "zigzag", "striped"])
@given(p=st.integers(1, 4), n=st.integers(1, 40), mine=st.integers(0, 3), theirs=st.integers(0, 4))
def test_the_edge_is_counted_as_often_as_it_cuts_a_row(layout, p, n, mine, theirs):
    posed = problem(n, layout=layout)
    shards = posed.keys(p)
    q = Block(shards, Const(mine % p)).runs({})
    k = Block(shards, Const(theirs % p)).runs({}) if theirs < 4 else gather_runs(shards, p)

    counted = 0
    for start, count in zip(k.start.ravel(), k.count.ravel(), strict=True):
        keys = start + k.step * np.arange(count)
        counted += sum(keys.min() <= row <= keys.max() for row in q.positions()) if count else 0

    assert crossings(q, k) == counted


def gather_runs(shards, p):
    """The runs of all shards side by side."""
    parts = [Block(shards, Const(i)).runs({}) for i in range(p)]
    return Runs(np.concatenate([x.start for x in parts]), np.concatenate([x.count for x in parts]), parts[0].step)


def test_heads_that_share_keys_are_rows_of_one_tile():
    grouped = problem(heads=8, kv_heads=2)
    site = Site(cluster())
    op = next(op for op in ring_attention(grouped, Mesh(ring=2)).ops if op.kind == "attend")
    seconds = site.machine.seconds(op, grouped, {"ring": np.arange(2)}, (2,))

    assert seconds == pytest.approx(LINE + FIXED + 8 * PER_PAIR * 512 * 512)


@pytest.mark.parametrize(
    "changed, told",
    [
        ({"n": 1 << 16}, "attention fwd float64: extrapolated from 2,048 to 32,768 rows"),
        ({"head_dim": 128}, "measured at head size 64, taken in proportion at 128"),
        ({"n": 1 << 17}, "exchange: extrapolated from 16,777,216 to "),
    ],
)
def test_what_goes_beyond_the_measurements_is_said(changed, told):
    n = changed.pop("n", 1024)
    site = Site(cluster())
    simulate(ring_attention(problem(n, **changed), Mesh(ring=2)), site)

    assert any(told in line for line in site.machine.assumptions(problem()))


def test_an_op_that_was_not_measured_is_a_copy_and_says_so():
    site = Site(cluster(glue=[sized(1 << 20, 100 * us, kind="copy", dtype="uint8")]))
    simulate(ring_attention(problem(), Mesh(ring=2)), site)

    assert "merge float64: not measured, taken to be a copy of its bytes" in site.machine.assumptions(problem())


def test_among_more_ranks_than_were_measured_collectives_are_made_of_exchanges():
    site = Site(cluster(4))
    simulate(find("attention2d")["prefill"](problem(), Mesh(row=1, col=4)), site)

    told = site.machine.assumptions(problem())
    assert "all_gather float64 among 4: not measured, made of exchanges" in told


def test_a_type_that_was_not_measured_is_refused_by_name():
    half = problem(dtype="bfloat16", state_dtype="float32")
    with pytest.raises(ValueError, match=r"has no attention fwd bfloat16 measured: it has fwd float64"):
        simulate(ring_attention(half, Mesh(ring=2)), cluster())


@pytest.mark.parametrize(
    "changed, told",
    [
        ({"schema": "ringloom.measured/9"}, "expected ringloom.measured/1, got schema 'ringloom.measured/9'"),
        ({"exchange": []}, "a curve needs sizes and seconds above 0, got 0 measurements"),
        ({"exchange": [sized(0, 1.0)]}, "a curve needs sizes and seconds above 0"),
        ({"exchange": [sized(4, True)]}, "exchange: seconds must be a number above 0, got True"),
        ({"exchange": [sized(4, 1e300)]}, "exchange: seconds must be a number above 0 and at most 1e+09, got 1e+300"),
        ({"exchange": [sized(1e300, 1.0)]}, "exchange: nbytes must be at least 1 and at most 1.15292e+18, got 1e+300"),
        ({"gemm": [{"dtype": 8, "flop_rate": 1e9}]}, "gemm: dtype must be a text, got 8"),
        ({"exchange": [{"nbytes": 4}]}, "a row has no sound 'seconds'"),
        ({"overhead": {}}, "a row has no sound 'line_s'"),
        ({"kernels": [{"passes": "fwd"}]}, "a row has no sound 'dtype'"),
        ({"glue": 3}, "a row has no sound"),
    ],
)
def test_costs_that_are_not_sound_are_refused_in_one_line(changed, told):
    with pytest.raises(ValueError, match=r"^measured costs of ") as refused:
        Site(cluster(**changed))

    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_assumption_of_ours_touches_a_measured_machine():
    told = Site(cluster()).machine.assumptions(problem())

    assert told[0].startswith("costs: measured 2026-01-02 03:04 UTC on here, load 0.5; medians of ")
    assert len(told) == 1


def test_a_cluster_file_keeps_its_costs(tmp_path):
    file = tmp_path / "here.json"
    write(cluster(), str(file))
    facts = read(file.read_text(), str(file))
    graph = facts.graph

    assert graph.graph["measured"] == json.loads(json.dumps(record()))
    assert not [note for note in facts.notes if "measured" in note]
    assert isinstance(Site(graph).machine, Measured)


@given(st.lists(st.tuples(st.integers(1, 1 << 30), st.floats(1e-6, 1.0)), min_size=1, max_size=6))
def test_a_curve_goes_through_its_points_and_is_never_below_the_fastest(points):
    sizes, seconds = zip(*dict(points).items(), strict=True)
    curve, asked = Curve(sizes, seconds), np.geomspace(min(sizes), 10 * max(sizes), 40)

    assert curve.at(sizes) == pytest.approx(seconds)
    fastest = max(size / s for size, s in dict(points).items())
    assert (curve.at(asked) >= asked / fastest * (1 - 1e-9)).all()
    assert curve.at(0) == 0


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_a_surface_stays_within_its_points(rows, keys):
    surface = Surface([1, 1, 512, 2048], [64, 4096, 512, 2048], [4e-9, 2e-9, 1e-9, 1.5e-9])

    assert 1e-9 * (1 - 1e-9) <= surface.at(np.array([rows]), np.array([keys]))[0] <= 4e-9 * (1 + 1e-9)


def test_machines_that_differ_say_in_what():
    here = {"hosts": ["a"], "cpu": "X", "cores": 2, "mpi": "MPICH 5", "blas": "OpenBLAS"}

    assert difference(here, dict(here)) == ""
    assert difference(here, here | {"cpu": "Y", "cores": 64}) == "cpu X, not Y; cores 2, not 64"
    assert difference(here, {"cpu": "X"}) == ""
