"""What readers of logs take from fixtures that show, each, what real logs are like."""

import json
from pathlib import Path

import pytest

from topologies.files.facts import FileError
from topologies.logs import read, read_all
from topologies.logs.nccl_tests import agrees
from topologies.logs.records import factor
from topologies.units import GB, MB, MiB, us

DATA = Path(__file__).parents[2] / "data" / "logs"


def log(name):
    return read(str(DATA / name))


def refused(path):
    with pytest.raises(FileError) as error:
        read(str(path))
    return str(error.value).replace(str(path), path.name)


def test_a_whole_log_is_read_out_of_place_and_in_place():
    found = log("nccl_whole.txt")
    first, second = found.records[:2]

    assert (first.test, first.ranks, first.nodes, first.nbytes, first.line) == ("all_reduce", 8, 1, 8, 16)
    assert (first.in_place, second.in_place) == (False, True)
    assert first.seconds == pytest.approx(11.01 * us)
    assert found.gpus == ("NVIDIA H100 80GB HBM3",)
    assert found.notes == ()


def test_rows_that_are_sound_are_read_and_others_named():
    found = log("nccl_srun.txt")  # srun -l, N/A, the library's lines, [0] in a row, the last line cut

    assert {(one.ranks, one.nodes) for one in found.records} == {(16, 2)}
    assert len(found.records) == 28
    assert found.notes[:3] == (
        "skipped lines 11, 12: 0 bytes, too few for so many ranks",
        "skipped line 25: size / time is not the algbw beside it",
        "skipped line 31: the row is cut",
    )


def test_two_tests_in_a_paste_are_two_and_the_unnamed_one_is_told_by_its_busbw():
    tests = {one.test: one.ranks for one in log("nccl_two.txt").records}
    assert tests == {"all_reduce": 4, "all_gather": 4}


def test_an_old_release_without_root_and_with_errors_is_read():
    records = log("nccl_old.txt").records
    assert len(records) == 12
    assert {one.ranks for one in records} == {8}


def test_an_all_gather_is_told_from_an_all_to_all_by_what_is_checked_in_place(tmp_path):
    row = " 8388608  131072  float  none  -1  784.9  10.69  10.02  {}  775.9  10.81  10.14  {}"
    (tmp_path / "a.txt").write_text(row.format("0", "0"))
    (tmp_path / "b.txt").write_text(row.format("N/A", "N/A"))
    (tmp_path / "my_alltoall.txt").write_text(row.format("N/A", "N/A"))

    assert read(str(tmp_path / "a.txt")).records[0].test == "all_gather"
    assert "may be all_gather or all_to_all; keep the line with its command" in refused(tmp_path / "b.txt")
    assert read(str(tmp_path / "my_alltoall.txt")).records[0].test == "all_to_all"


def test_one_rank_alone_is_refused(tmp_path):
    row = " 8388608  2097152  float  sum  -1  784.9  10.69  0.00  0  775.9  10.81  0.00  0"
    (tmp_path / "one.txt").write_text(f"all_reduce_perf\n{row}")

    assert "of one rank alone, which communicates with none" in refused(tmp_path / "one.txt")


@pytest.mark.parametrize(
    ("size", "time", "algbw", "is_so"),
    [(8388608, "407.5", "20.59", True), (8388608, "407.5", "20.57", False), (8, "164.3", "0.00", True)],
)
def test_size_by_time_is_the_algbw_within_what_was_rounded_off(size, time, algbw, is_so):
    assert agrees(size, time, algbw) == is_so


def test_factors_are_those_of_nccl_tests():
    assert [factor(test, 4) for test in ("all_reduce", "all_gather", "all_to_all", "sendrecv")] == [1.5, 0.75, 0.75, 1]


def test_a_table_has_a_column_a_system_and_rates_of_one_digit_are_left_out():
    found = log("table_nodes.md")

    assert {one.nodes for one in found.records} == {1, 2}
    assert len(found.records) == 9
    assert found.records[-1].busbw == pytest.approx(360.40 * GB)
    assert "skipped line 5: rates of so few digits" in found.notes


def test_a_table_by_gpus_has_no_sizes_and_names_its_algorithms():
    records = log("table_gpus.md").records
    assert [(one.ranks, one.algorithm, one.nbytes) for one in records][2:] == [(8, "nvls", None), (8, "ring", None)]


def test_osu_tests_are_taken_by_their_columns():
    bandwidth, latency = ([one for one in log("osu_two.txt").records if one.test == test] for test in ("bw", "latency"))

    assert bandwidth[-1].busbw == pytest.approx(93011.70 * MB)
    assert (bandwidth[0].devices, bandwidth[0].on_host, latency[0].on_host) == ((0, 3), False, True)
    assert [one.seconds for one in latency] == [pytest.approx(x * us) for x in (1.71, 2.40, 12.02)]

    columns = log("osu_columns.txt")
    gathered, reduced = columns.records[0], columns.records[-1]
    assert (gathered.test, gathered.each, gathered.seconds) == ("all_gather", True, pytest.approx(22.10 * us))
    assert (reduced.nbytes, reduced.seconds) == (MiB, pytest.approx(215.5 * us))  # of communication alone


def test_a_header_without_rows_is_refused(tmp_path):
    (tmp_path / "crash.txt").write_text("# OSU MPI Non-blocking Allreduce Latency Test v7.5\n# Overall = a\nSegv\n")

    assert "holds no measurement of an OSU benchmark" in refused(tmp_path / "crash.txt")


def test_of_the_ranks_of_a_job_the_last_to_come_tells_the_time():
    (together,) = read_all([str(DATA / f"kineto_rank{rank}.json") for rank in (0, 1)])
    (alone,) = read_all([str(DATA / "kineto_rank0.json")])

    times = [(one.test, one.nbytes, round(one.seconds / us, 1)) for one in together.records]
    assert times == [
        ("all_reduce", 2**25, 105.0),
        ("all_reduce", 2**25, 104.0),
        ("all_gather", 2**25, 61.5),
        ("all_reduce", 2**11, 9.0),
    ]
    assert "1 of 2 ranks: durations include waiting for the others; of equal calls the least is taken" in alone.notes
    assert len(alone.records) == 3


def test_two_files_of_one_rank_are_refused(tmp_path):
    copy = tmp_path / "again.json"
    copy.write_text((DATA / "kineto_rank0.json").read_text())

    with pytest.raises(FileError, match=r"again.json: is of rank 0, as .*kineto_rank0.json is: give one file a rank"):
        read_all([str(DATA / "kineto_rank0.json"), str(copy)])


def test_kernels_without_messages_are_refused(tmp_path):
    whole = json.loads((DATA / "kineto_rank0.json").read_text())
    for event in whole["traceEvents"]:
        event["args"] = {"stream": 7}
    (tmp_path / "old.json").write_text(json.dumps(whole))

    assert "the message is not said" in refused(tmp_path / "old.json")


@pytest.mark.parametrize("name", ["nccl_info.txt", "msccl.xml"])
def test_what_holds_no_timings_is_refused_with_what_does(name):
    assert "which holds no timings: give the output of nccl-tests" in refused(DATA / name)
