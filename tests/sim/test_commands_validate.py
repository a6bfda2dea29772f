"""`ringloom validate`: what it prints and draws, and every unsound timeline refused in one line."""

import copy
import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from algorithms.ir import Attention
from sim.commands import run
from tests.sim.commands import answer, shown
from tests.sim.runs import PROBLEM, measured
from tests.sim.test_measured_machine import cluster as calibrated
from topologies.files.graphs import write

CLUSTER = """schema: ringloom.cluster/1
name: two
nodes: {a: {kind: gpu, rank: 0, flop_rate: 1.0e+10}, b: {kind: gpu, rank: 1, flop_rate: 1.0e+10}}
classes: {wire: {kind: link, bandwidth: 1.0e+9, latency: 1.0e-6}}
cables: {a: {b: wire}}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.json"
    measured().write(path)
    return str(path)


@pytest.fixture
def cluster(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(CLUSTER)
    return str(path)


def refused(capsys, *arguments):
    """The one line that a command is refused with."""
    assert run(["validate", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ringloom: ")
    assert err.count("\n") == 1
    assert err[:-1].isprintable()
    return err


def test_the_replay_of_a_run_takes_as_long(file, capsys):
    found = answer(capsys, "validate", "--measured", file)

    assert found["replay"]["seconds"] == pytest.approx(found["measured"]["shown_s"], rel=1e-9)
    assert found["replay"]["error"] == pytest.approx(0, abs=1e-9)
    assert found["replay"]["one_thing_at_a_time"]
    assert found["prediction"] is None
    assert found["schema"] == "ringloom.validate/1"


def test_rows_add_up_to_the_run(file, cluster, capsys):
    found = answer(capsys, "validate", "--measured", file, "--cluster", cluster, "--per-op")

    for rows in ("kinds", "ops"):
        assert sum(row["measured_s"] for row in found[rows]) == pytest.approx(found["measured"]["shown_s"])
        assert sum(row["predicted_s"] for row in found[rows]) == pytest.approx(found["prediction"]["seconds"])
    assert [row["kind"] for row in found["kinds"]] == ["attend", "permute", "merge", "waiting less overlap"]


def test_a_prediction_of_the_run_itself_is_exact(tmp_path, cluster, capsys):
    """A simulated timeline, taken for a measured one, is what the same cluster predicts."""
    path = str(tmp_path / "simulated.json")
    sizes = ("--heads", "4", "--head-dim", "16", "--seq", "4K", "--mesh", "ring=2")
    assert run(["simulate", "ring", "--cluster", cluster, *sizes, "--timeline", path]) == 0
    capsys.readouterr()

    found = answer(capsys, "validate", "--measured", path, "--cluster", cluster)

    assert found["prediction"]["error"] == pytest.approx(0, abs=1e-9)
    assert found["prediction"]["measured_compute_predicted_transfers_s"] == pytest.approx(found["measured"]["shown_s"])
    assert all(row["predicted_s"] == pytest.approx(row["measured_s"]) for row in found["kinds"])


def test_a_simulated_timeline_is_said_to_be_one(tmp_path, capsys):
    path = tmp_path / "simulated.json"
    replace(measured(), clock="simulated").write(path)

    assert run(["validate", "--measured", str(path)]) == 0
    assert "was simulated, not measured" in capsys.readouterr().err


def test_a_calibration_of_another_machine_is_warned_of(tmp_path, capsys):
    run_of = tmp_path / "run.json"
    measured(problem=replace(PROBLEM, head_dim=64, head_dim_v=64)).write(run_of)
    graph = calibrated()
    graph.graph["measured"]["environment"] |= {"cpu": "another", "hosts": ["there"]}
    write(graph, str(tmp_path / "there.json"))

    assert run(["validate", "--measured", str(run_of), "--cluster", str(tmp_path / "there.json")]) == 0

    (warned,) = capsys.readouterr().err.splitlines()
    assert "another machine" in warned
    assert "cpu another, not one of two cores" in warned


def test_the_text_names_what_makes_the_difference(file, cluster, capsys):
    text = shown(capsys, "validate", "--measured", file, "--cluster", cluster)

    assert "the median of 3 runs" in text
    assert "the difference: " in text
    assert all(line in text for line in ("replay ", "predicted ", "mixed ", "attend", "permute", "waiting"))


@pytest.mark.parametrize("form", ["png", "svg", "html"])
def test_two_runs_are_drawn_the_same_each_time(form, file, cluster, tmp_path, capsys):
    drawn = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.{form}"
        assert run(["validate", "--measured", file, "--cluster", cluster, f"--{form}", str(path)]) == 0
        drawn.append(path.read_bytes())

    assert drawn[0] == drawn[1]
    if form != "png":
        assert b"attend 3 on rank 1" in drawn[0]
        assert b"predicted" in drawn[0]


def test_of_many_ranks_three_are_drawn_and_that_is_said(tmp_path, capsys):
    path = tmp_path / "run.json"
    measured(problem=replace(PROBLEM, query_len=512, key_len=512), ring=20).write(path)

    assert run(["validate", "--measured", str(path), "--svg", str(tmp_path / "run.svg")]) == 0

    assert "3 of 20 ranks" in capsys.readouterr().err
    assert (tmp_path / "run.svg").read_text().count(">rank ") == 6


def test_an_algorithm_of_a_file_is_not_run_because_a_timeline_says_so(tmp_path, capsys):
    record, path = json.loads(_text(tmp_path)), tmp_path / "run.json"
    record["about"]["schedule"]["algorithm"] = f"{tmp_path / 'own.py'}:mine"
    (tmp_path / "own.py").write_text("raise SystemExit('run')")
    path.write_text(json.dumps(record))

    assert "say --algorithm" in refused(capsys, "--measured", str(path))


def _text(tmp_path):
    measured().write(tmp_path / "sound.json")
    return (tmp_path / "sound.json").read_text()


def _set(*where):
    *path, last, value = where

    def change(record):
        for key in path:
            record = record[key]
        record[last] = value

    return change


UNSOUND = {
    "a negative time": (_set("start", 3, 0, -1.0), "start must be from 0"),
    "no number": (_set("end", 3, 1, float("nan")), "end must be from 0"),
    "an end before its start": (_set("end", 3, 0, 0.0), "an op ends after it starts: attend 3 on rank 0"),
    "overlapping ops": (_set("start", 5, 0, 0.0), "one op after another"),
    "another makespan": (_set("makespan", 1.0), "makespan is when the last op ends"),
    "no makespan": (_set("makespan", None), "makespan must be above 0"),
    "a rank too few": (_set("busy", [0.0]), "busy must be one number a rank, 2"),
    "rows of several lengths": (_set("start", 0, [0.0]), "not a timeline file"),
    "a huge number": (_set("sent", 0, [10**40, 0]), "not a timeline file"),
    "no ops": (_set("ops", []), "start must be one number"),
    "an op of another kind": (_set("ops", 4, "kind", "all_gather"), "op 4 has kind all_gather"),
    "an op that is none": (_set("ops", 4, None), "each op has id"),
    "extents": (_set("extent", True), "extents of ops only"),
    "another clock": (_set("clock", "sundial"), "clock must be"),
    "another mesh": (_set("about", "schedule", "mesh", {"ring": 3}), "has 3 ranks: the times are of 2"),
    "a huge mesh": (_set("about", "schedule", "mesh", {"ring": 2**60}), "ranks: the times are of 2"),
    "a mesh of none": (_set("about", "schedule", "mesh", {"ring": 0}), "must be at least 1"),
    "no algorithm": (_set("about", "schedule", "algorithm", "rnig"), "nearest is ring"),
    "no problem": (_set("about", "schedule", "problem", {}), "no mesh or problem"),
    "another mask": (_set("about", "schedule", "problem", "mask", "dense"), "no mask 'dense'"),
    "runs that are none": (_set("about", "runs", [1.0, -1.0]), "about.runs"),
    "waits of another shape": (_set("about", "waited", [[0.0]]), "about.waited must be"),
    "ways that are none": (_set("about", "ways", 3), "about.ways"),
    "about nothing": (_set("about", 3), "about must be a mapping"),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_an_unsound_timeline_is_refused_in_one_line(name, tmp_path, capsys):
    change, said = UNSOUND[name]
    record, path = json.loads(_text(tmp_path)), tmp_path / "run.json"
    change(record)
    path.write_text(json.dumps(record))

    assert said in refused(capsys, "--measured", str(path))


def test_a_cut_file_is_refused(tmp_path, capsys):
    text, path = _text(tmp_path), tmp_path / "run.json"
    for length in (0, 1, len(text) // 2, len(text) - 3):
        path.write_text(text[:length])
        assert "not a timeline file" in refused(capsys, "--measured", str(path))


def test_published_figures_are_put_beside_predicted_ones(capsys):
    found = answer(capsys, "validate", "--published")["published"]

    assert len(found) == 25
    assert all(one["error"] == pytest.approx(one["predicted"] / one["published"] - 1) for one in found)
    assert all(one["why"] for one in found if abs(one["error"]) > 0.10)


@pytest.mark.parametrize(
    "more", [("--measured", "x.json"), ("--cluster", "dgx_h100"), ("--per-op",), ("--png", "x.png")]
)
def test_published_figures_have_clusters_of_their_own(more, capsys):
    assert f"leave out {'--png' if more[0] == '--png' else more[0]}" in refused(capsys, "--published", *more)


def test_something_must_be_asked_for(capsys):
    assert "needs --measured FILE, or --published" in refused(capsys)


def test_what_changes_nothing_is_refused(file, capsys):
    assert "say --cluster too" in refused(capsys, "--measured", file, "--gpus", "2")


def test_a_cluster_of_too_few_ranks_is_refused(tmp_path, cluster, capsys):
    path = tmp_path / "run.json"
    measured(ring=4).write(path)

    assert "needs 4 ranks" in refused(capsys, "--measured", str(path), "--cluster", cluster)


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.floats(), max_size=3),
    st.dictionaries(st.text(max_size=4), st.integers(0, 9), max_size=2),
)


def places(value, here=()):
    """Every place of a record, as its keys."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (*here, key)
        yield from places(below, (*here, key))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_a_timeline_changed_anywhere_is_answered_or_refused_in_one_line(tmp_path, capsys, data):
    record, path = json.loads(_text(tmp_path)), tmp_path / "changed.json"
    for _ in range(data.draw(st.integers(1, 2))):
        *above, last = data.draw(st.sampled_from(list(places(record))))
        inside = record
        for key in above:
            inside = inside[key]
        if data.draw(st.booleans()):
            del inside[last]
        else:
            inside[last] = copy.deepcopy(data.draw(JUNK))
    path.write_text(json.dumps(record))

    status = run(["validate", "--measured", str(path)])

    out, err = capsys.readouterr()
    assert status in (0, 2)
    assert (out == "") == (status == 2)
    assert all(line.startswith("ringloom: ") and line.isprintable() for line in err.splitlines())
    assert err.count("\n") == 1 or status == 0


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_a_calibration_changed_anywhere_is_answered_or_refused_in_one_line(tmp_path, capsys, data):
    run_of, path = tmp_path / "run.json", tmp_path / "here.json"
    measured(problem=replace(PROBLEM, head_dim=64, head_dim_v=64)).write(run_of)
    write(calibrated(), str(path))
    record = json.loads(path.read_text())
    *above, last = data.draw(st.sampled_from(list(places(record["measured"], ("measured",)))))
    inside = record
    for key in above:
        inside = inside[key]
    if data.draw(st.booleans()):
        del inside[last]
    else:
        inside[last] = copy.deepcopy(data.draw(JUNK))
    path.write_text(json.dumps(record))

    status = run(["validate", "--measured", str(run_of), "--cluster", str(path)])

    out, err = capsys.readouterr()
    assert status in (0, 2)
    assert (out == "") == (status == 2)
    assert all(line.startswith("ringloom: ") and line.isprintable() for line in err.splitlines())


@example("")
@given(st.text(max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_text_is_refused_in_one_line(tmp_path, capsys, text):
    path = tmp_path / "text.json"
    path.write_text(text, encoding="utf-8", errors="replace")

    refused(capsys, "--measured", str(path))


def test_a_problem_in_decode_is_validated_too(tmp_path, capsys):
    path = tmp_path / "run.json"
    decode = Attention(4, 4, 16, 1, 256, phase="decode", dtype="float64", state_dtype="float64")
    measured("tree", problem=decode, cp=2).write(path)

    assert answer(capsys, "validate", "--measured", str(path))["replay"]["error"] == pytest.approx(0, abs=1e-9)
