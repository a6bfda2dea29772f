"""`calibrate`: every sort of op that algorithms have is measured, and the file that it writes simulates."""

import json

import numpy as np
import pytest

from algorithms import find, names
from algorithms.ir import Attention, Mesh
from algorithms.ops import is_free, is_view
from algorithms.options import algorithms_from
from executor.errors import BadInput
from executor.kernels import find as kernel
from tests.executor.ranks import assert_refused, command, needs_mpi

pytest.importorskip("mpi4py", reason="mpi4py is missing: pip install .[mpi]")

from executor.calibration.cluster import cluster, measured_record
from executor.calibration.command import types_from
from executor.calibration.items import random
from executor.calibration.kernels import QUICK, THOROUGH, gemm, kernels
from executor.calibration.messages import hidden, line_seconds, lines
from executor.calibration.specimens import ATTENTION, sort_of, sources

KEYS = {"seconds", "low", "high", "count"}


def row(seconds, **more):
    return {**more, "seconds": seconds, "low": seconds, "high": seconds, "count": 3}


def test_every_glue_and_collective_of_every_algorithm_has_a_source():
    programs = algorithms_from("all")
    found = sources(programs, 4, "float32")
    kinds = {sort[0] for sort in found}

    assert kinds >= {"merge", "weigh", "normalise", "add", "delta", "all_gather", "reduce_scatter", "all_reduce"}
    assert {sort[3] for sort in found if len(sort) == 4} == {2, 4}
    for sort, source in found.items():
        ops = source.schedule("float32", 8, 4).ops
        assert sort in [sort_of(op, source.mesh) for op in ops]
    assert len(programs) == len(names())


def test_attention_permutes_views_and_what_is_free_have_no_specimen():
    problem = Attention(heads=2, kv_heads=2, head_dim=8, query_len=8, key_len=8)
    schedule = find("ring")["prefill"](problem, Mesh(ring=2))
    for op in schedule.ops:
        left_out = op.kind in (*ATTENTION, "permute") or is_free(op) or is_view(op)
        assert (sort_of(op, schedule.mesh) is None) == left_out


@pytest.mark.parametrize("shapes", [QUICK, THOROUGH])
def test_tiles_are_of_at_least_four_shapes_with_a_flat_one_and_that_of_decode(shapes):
    rows, keys = ({shape[k] for shape in shapes.whole} for k in (0, 1))

    assert len(shapes.whole) >= 4
    assert 1 in rows
    assert any(shape.keys >= 2 * shape.rows > 2 for shape in shapes.whole)
    assert all(shape.rows == shape.keys for shape in shapes.cut)
    assert max(keys) >= 1024


def test_every_tile_runs_and_says_its_pairs():
    tiny = QUICK._replace(whole=[QUICK.whole[0]._replace(keys=8), *[QUICK.whole[2]._replace(rows=300, keys=300)]])
    tiny = tiny._replace(cut=[tiny.whole[1]], backward=[tiny.whole[1]])
    items = list(kernels(kernel("numpy"), "float32", 4, tiny))

    assert [item.row["mask"] for item in items] == [
        "full",
        "full",
        "full",
        "seen",
        "cut",
        "full",
        "full",
        "seen",
        "cut",
    ]
    for item in items:
        item.call()
        n, m = item.row["rows"], item.row["keys"]
        assert item.row["pairs"] == (n * (n + 1) // 2 if item.row["mask"] == "cut" else n * m)


def test_a_matrix_product_and_lines_run():
    for item in (gemm("float64"), lines()):
        item.call()
    assert line_seconds([row(200e-6)]) == pytest.approx(1e-6)


@pytest.mark.parametrize("both, share", [(3.0, 0.0), (2.0, 1.0), (2.5, 0.5)])
def test_what_computing_hides_is_a_share_of_the_shorter(both, share):
    rows = [row(s, nbytes=1, what=what) for s, what in ((1.0, "exchange"), (2.0, "compute"), (both, "both"))]

    assert hidden(rows) == pytest.approx(share)


@pytest.mark.parametrize("both, offloaded", [(3.0, False), (2.0, True)])
def test_a_link_that_computing_hides_is_offloaded(both, offloaded):
    about = {"ranks": 2, "cpu": "X", "mpi": "M", "date": "2026-01-02 03:04 UTC", "load_before": [0.1]}
    sections = {
        "overlap": [row(s, nbytes=1, what=what) for s, what in ((1.0, "exchange"), (2.0, "compute"), (both, "both"))],
        "exchange": [row(1e-5, nbytes=1000), row(1e-3, nbytes=1_000_000)],
        "gemm": [row(1e-3, dtype="float64", flop=1_000_000)],
        "overhead": [row(1e-4, lines=200)],
    }
    graph = cluster(measured_record(sections, about, "numba"), "here")

    assert {link["offloaded"] for _, _, link in graph.edges(data=True)} == {offloaded}
    assert {link["bandwidth"] for _, _, link in graph.edges(data=True)} == {1e9}
    assert all(data["flop_rate"] == 1e9 for _, data in graph.nodes(data=True) if data["kind"] == "gpu")
    assert all("measured here, 2026-01-02 03:04 UTC, load 0.1" in text for text in graph.graph["sources"].values())
    from topologies.laws import check

    check(graph)


def test_arrays_are_of_the_shape_and_type_asked_for_however_large():
    x = random((300, 7, 64), "float32")
    assert (x.shape, x.dtype) == ((300, 7, 64), np.float32)
    assert random((0, 3), "float64").shape == (0, 3)


def test_types_are_read_once_each():
    assert types_from("fp64, float32,fp64") == ["float64", "float32"]
    for text, told in (("bf16", "dtype bfloat16 cannot be measured"), (" , ", "--dtype names no type")):
        with pytest.raises(BadInput, match=told):
            types_from(text)


class TestRanks:
    """On real ranks."""

    pytestmark = needs_mpi

    def test_what_is_written_simulates_and_names_the_machine(self, tmp_path):
        file = tmp_path / "here.json"
        words = (
            "--quick",
            "--dtype",
            "float64",
            "--head-dim",
            "8",
            "--algorithms",
            "ring,tree,ulysses",
            "--rounds",
            "3",
        )
        done = command("calibrate", "--out", file, *words, ranks=2)
        assert done.returncode == 0, done.stderr
        text = json.loads(file.read_text())

        measured = text["measured"]
        assert measured["schema"] == "ringloom.measured/1"
        for section in ("kernels", "exchange", "collectives", "glue", "gemm", "overlap"):
            assert measured[section], section
            assert all(
                row.keys() >= KEYS and 0 < row["low"] <= row["seconds"] <= row["high"] for row in measured[section]
            )
        assert {row["kind"] for row in measured["collectives"]} == {"all_reduce", "all_to_all"}
        assert {row["kind"] for row in measured["glue"]} >= {"merge", "weigh", "normalise", "copy"}
        assert "rows written to" in done.stdout
        assert [p.name for p in tmp_path.iterdir()] == ["here.json"]

    @pytest.mark.parametrize(
        "words, ranks, told",
        [
            (("--out", "x.json"), 1, "calibrate measures messages too: it needs 2 ranks or more"),
            (("--out", "x.txt"), 2, "expected a name that ends in .json, got x.txt"),
            (("--out", "/no/x.json"), 2, "--out /no/x.json cannot be written"),
            (("--out", "x.json", "--dtype", "int8"), 2, "dtype int8 cannot be measured"),
            (("--out", "x.json", "--kernel", "x"), 2, "no kernel 'x'"),
            (("--out", "x.json", "--algorithms", "rnig"), 2, "no algorithm 'rnig'"),
        ],
    )
    def test_bad_input_is_one_line(self, words, ranks, told):
        assert_refused(command("calibrate", *words, ranks=ranks, timeout=60), told)
