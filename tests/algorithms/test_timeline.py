"""Timeline files: what is written is read, and what is no timeline is refused in one line."""

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import algorithms
from algorithms.ir import Attention, Mesh, spmd
from algorithms.ir.timeline import SCHEMA, Timeline, lines, whole
from algorithms.ops.add import add
from algorithms.ops.load import load
from algorithms.ops.permute import permute


def timeline(**changes):
    made = {
        "clock": "simulated",
        "ops": ({"id": 0, "kind": "attend", "stream": "compute", "name": "attend 0"},),
        "start": np.array([[0.0, 0.1]]),
        "end": np.array([[1.0, 1.7]]),
        "sent": np.array([[3, 2**40]]),
        "busy": np.array([1.0, 1.5]),
        "peak": np.array([2**33, 5]),
        "makespan": 2.0,
        "link_bytes": {"nvlink": 12},
        "hot_links": ({"link": "a->b", "share": 0.5},),
        "about": {"mesh": {"ring": 2}, "nested": [1, "two", None]},
    }
    return Timeline(**made | changes)


def test_a_round_trip_keeps_everything(tmp_path):
    made = timeline()
    made.write(tmp_path / "t.json")

    back = Timeline.read(tmp_path / "t.json")

    for name, value in vars(made).items():
        np.testing.assert_equal(getattr(back, name), value, err_msg=name)
    assert (back.sent.dtype, back.start.dtype) == (np.int64, np.float64)


def test_extents_survive_the_round_trip(tmp_path):
    timeline(extent=True).write(tmp_path / "t.json")

    assert Timeline.read(tmp_path / "t.json").extent is True


def test_the_file_appears_whole(tmp_path):
    timeline().write(tmp_path / "t.json")
    timeline(makespan=3.0).write(tmp_path / "t.json")

    assert [f.name for f in tmp_path.iterdir()] == ["t.json"]
    assert json.loads((tmp_path / "t.json").read_text())["makespan"] == 3.0


def test_the_file_that_a_link_names_is_replaced_and_the_link_stays(tmp_path):
    (tmp_path / "link.json").symlink_to("t.json")
    timeline().write(tmp_path / "link.json")

    assert (tmp_path / "link.json").is_symlink()
    assert not (tmp_path / "t.json").is_symlink()
    assert Timeline.read(tmp_path / "t.json").makespan == 2.0


def test_a_pipe_or_device_is_written_as_it_stands(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_text()))
    reader.start()
    timeline().write(tmp_path / "pipe")
    reader.join()
    timeline().write("/dev/null")

    assert json.loads(got[0])["makespan"] == 2.0
    assert (tmp_path / "pipe").is_fifo()
    assert Path("/dev/null").is_char_device()


def test_a_file_that_was_being_written_leaves_nothing(tmp_path):
    def interrupted():
        with whole(tmp_path / "t.json") as file:
            file.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert list(tmp_path.iterdir()) == []


def test_a_name_as_long_as_names_can_be_is_written(tmp_path):
    timeline().write(tmp_path / ("n" * 255))

    assert [len(f.name) for f in tmp_path.iterdir()] == [255]


def test_exposed_time_is_what_the_busiest_rank_waits():
    made = timeline()

    assert made.ranks == 2
    assert made.compute == 1.5
    assert made.exposed == 0.5
    assert made.sent_per_rank().tolist() == [3, 2**40]


def test_a_timeline_without_work_is_empty():
    nothing = timeline(ops=(), start=np.zeros((0, 0)), end=np.zeros((0, 0)), busy=np.zeros(0), makespan=0.0)

    assert (nothing.compute, nothing.exposed) == (0.0, 0.0)


def without(record, key):
    return {k: v for k, v in record.items() if k != key}


GOOD = {
    "schema": SCHEMA,
    "clock": "measured",
    "ops": [],
    "start": [[0.0]],
    "end": [[1.0]],
    "sent": [[0]],
    "busy": [0.0],
}
GOOD |= {"peak": [0], "makespan": 1.0, "extent": False, "link_bytes": {}, "hot_links": [], "about": {}}


def test_the_good_file_is_good(tmp_path):
    (tmp_path / "good.json").write_text(json.dumps(GOOD))

    assert Timeline.read(tmp_path / "good.json").clock == "measured"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[1, 2]",
        "null",
        "{}",
        json.dumps(GOOD | {"schema": "ringloom.timeline/999"}),
        json.dumps(GOOD | {"colour": "blue"}),
        json.dumps(GOOD | {"start": [[0.0], [1.0, 2.0]]}),
        json.dumps(GOOD | {"busy": "long"}),
        *(
            json.dumps(without(GOOD, key))
            for key in ("schema", "start", "sent", "peak", "clock", "makespan", "hot_links")
        ),
    ],
)
def test_what_is_no_timeline_is_refused_and_named(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)

    with pytest.raises(ValueError, match=r"bad\.json is not a timeline file \(ringloom\.timeline/1\): ") as refusal:
        Timeline.read(tmp_path / "bad.json")
    assert "\n" not in str(refusal.value)


def test_unreadable_files_are_refused_and_named(tmp_path):
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")

    for name in ("missing.json", "bytes.json", "."):
        with pytest.raises(ValueError, match="is not a timeline file"):
            Timeline.read(tmp_path / name)


def test_an_op_is_named_by_its_kind_and_stream():
    @spmd("row", "col")
    def program(me, problem):
        (r, c), (R, C) = me.coords, me.sizes
        q, k, v = load(me, problem, problem.queries(R * C)[r * C + c], problem.keys(R * C)[r * C + c])
        k = permute(k, over=("row", "col"), shift=1)
        v = permute(v, over="row", shift=1, lane=1)
        return {"out": add((q,), (q,))[0]}

    named = lines(program(Attention(2, 2, 8, 16, 16), Mesh(row=2, col=2)))

    assert [x["stream"] for x in named] == ["compute"] * 3 + ["rowxcol", "row/1", "compute"]
    assert named[3] == {"id": 3, "kind": "permute", "stream": "rowxcol", "name": "permute 3"}
    assert len(lines(algorithms.find("ring")["prefill"](Attention(2, 2, 8, 16, 16), Mesh(ring=4)))) == 3 + 1 + 3 * 3
