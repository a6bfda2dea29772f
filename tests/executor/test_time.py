"""`time`: what it says is of the runs it made, its timeline is one of them, and bad input is one line."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from algorithms.ir import Attention, Mesh
from algorithms.ir.timeline import Timeline
from algorithms.ring import ring_attention
from executor import launch
from executor.chosen import Chosen
from executor.errors import BadInput
from executor.outputs import output
from tests.executor.ranks import MPIEXEC, ROOT, assert_refused, clean, command, needs_mpi

pytest.importorskip("mpi4py", reason="mpi4py is missing: pip install .[mpi]")

from executor.timing import Runs, band

SMALL = ("--heads", "2", "--head-dim", "8", "--seq", "64")
QUICK = (*SMALL, "--repeats", "3", "--warmup", "0", "--kernel", "numpy")


def runs(seconds):
    """Runs of two ops on two ranks, compute then a hop that rank 1 waits for, as long as asked."""
    start = np.zeros((len(seconds), 2, 2))
    end = np.stack([np.array([[0.5, 0.25], [1.0, 1.0]]) * one for one in seconds])
    waited = np.stack([np.array([[0.5, 0.25], [0.5, 0.25]]) * one for one in seconds])
    return Runs(start, end, waited, np.zeros((2, 2), np.int64))


def test_a_run_lasts_until_its_last_rank_ends():
    assert runs([1.0, 3.0, 2.0]).seconds.tolist() == [1.0, 3.0, 2.0]


@pytest.mark.parametrize("seconds, middle", [([1.0, 3.0, 2.0], 2), ([5.0], 0), ([1.0, 1.1, 9.0, 1.2], 1)])
def test_the_run_kept_is_the_one_nearest_the_median(seconds, middle):
    assert runs(seconds).middle == middle


def test_the_band_holds_the_median():
    assert band(np.arange(11.0)) == (1.0, 5.0, 9.0)


def test_a_hop_costs_a_rank_what_it_waits_and_not_what_it_computes_meanwhile():
    # rank 0  compute-----|hop---|     posted at 0, waited for from 0.5 on
    # rank 1  compute|hop--------|     waited for from 0.25 on
    assert runs([1.0, 1.0]).spent.tolist() == [[0.5, 0.25], [0.5, 0.75]]


def test_what_a_timeline_says_of_its_schedule_makes_it_again():
    problem = Attention(heads=2, kv_heads=1, head_dim=8, query_len=64, key_len=64, mask="causal", layout="zigzag")
    said = json.loads(json.dumps(Chosen("ring", ring_attention(problem, Mesh(ring=2))).record("numba", None)))

    again = ring_attention(Attention(**said["problem"]), Mesh(**said["mesh"]))

    assert again.problem == problem
    assert str(again) == str(ring_attention(problem, Mesh(ring=2)))
    assert (said["ways"], said["kernel"], said["layout"], said["dtype"]) == ("native", "numba", "zigzag", "bfloat16")


def test_memory_that_is_freed_may_be_kept_and_asking_twice_changes_nothing():
    code = "from executor.memory import keep_freed; print(keep_freed(), keep_freed())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert done.stdout.split() in (["True", "True"], ["False", "False"])


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    assert output("--timeline", str(tmp_path / "x.json")) == tmp_path / "x.json"
    for name in ("", str(tmp_path), str(tmp_path / "no" / "x.json")):
        with pytest.raises(BadInput, match=r"--timeline .* cannot be written"):
            output("--timeline", name)


class TestRanks:
    """On real ranks; nothing here depends on how long anything takes."""

    pytestmark = needs_mpi

    def test_the_timeline_is_one_of_the_runs_and_tells_where_it_was_made(self, tmp_path):
        file = tmp_path / "t.json"
        done = command("time", "ring", *QUICK, "--timeline", file, "--json", ranks=2)
        assert done.returncode == 0, done.stderr
        answer, timeline = json.loads(done.stdout), Timeline.read(file)

        (result,), about = answer["results"], timeline.about
        assert result["times_s"] == about["runs"]
        assert len(about["runs"]) == about["repeats"] == 3
        assert timeline.makespan == about["runs"][about["run"]]
        assert timeline.clock == "measured"
        assert timeline.start.shape == np.shape(about["waited"]) == (len(timeline.ops), 2)
        assert (timeline.start <= np.array(about["waited"])).all()
        assert (np.array(about["waited"]) <= timeline.end).all()
        assert result["p10_s"] <= result["time_s"] <= result["p90_s"]
        assert about["schedule"]["mesh"] == {"ring": 2}
        assert about["environment"].keys() >= {"date", "hosts", "cpu", "cores", "mpi", "blas", "pinned", "load_after"}
        assert answer["schema"] == "ringloom.time/1"
        assert [p.name for p in tmp_path.iterdir()] == ["t.json"]

    def test_people_are_told_the_median_and_where_it_goes(self):
        done = command("time", "attention2d", *QUICK, "--ways", "all_gather=ring", ranks=2)

        assert done.returncode == 0, done.stderr
        assert "attention2d prefill on row=1,col=2" in done.stdout
        assert "3 runs after 0: median " in done.stdout
        assert "collectives all_gather=ring" in done.stdout
        assert "compute attend" in done.stdout

    def test_the_ranks_each_have_a_core_of_their_own(self):
        if os.cpu_count() < 2 or len(os.sched_getaffinity(0)) < 2:
            pytest.skip("this machine lets the tests have one core; two ranks need two")
        done = command("time", "ring", *QUICK, "--json", ranks=2)
        assert json.loads(done.stdout)["environment"]["pinned"] == "one core a rank"
        done = command("time", "ring", *QUICK, "--json", "--no-pin", ranks=2)
        assert json.loads(done.stdout)["environment"]["pinned"] == "not pinned"

    def test_a_time_limit_ends_the_runs(self):
        done = command("time", "ring", *SMALL, "--kernel", "numpy", "--repeats", "100000", "--seconds", "0.01", ranks=2)

        assert done.returncode == 0, done.stderr
        assert 3 <= int(re.search(r"(\d+) runs after 3: median", done.stdout)[1]) < 100_000

    @pytest.mark.parametrize(
        "words, told",
        [
            (("ring",), "a problem needs --model, or --heads and --head-dim"),
            (("rnig", *SMALL), "no algorithm 'rnig'"),
            (("all", *SMALL), "time takes one algorithm, got all"),
            (("ring", *SMALL, "--phase", "decode"), "ring is written for prefill, train, not decode"),
            (("ring", *SMALL, "--dtype", "fp8"), "dtype float8_e4m3 cannot be run"),
            (("ring", *SMALL, "--mesh", "ring=1"), "the mesh uses 1 ranks: MPI has 2"),
            (("ring", *SMALL, "--mesh", "row=2"), "ring runs over mesh axes ring, got row=2"),
            (("ring", *SMALL, "--kernel", "nmba"), "no kernel 'nmba'"),
            (("ring", *SMALL, "--timeline", "/no/such/t.json"), "--timeline /no/such/t.json cannot be written"),
            (("ring", *SMALL, "--native", "--ways", "default"), "--native and --ways default: give one or the other"),
            (("ring", *SMALL, "--seconds", "-1"), "--seconds must be above 0, got -1"),
            (("ulysses", "--heads", "3", "--head-dim", "8", "--seq", "64"), "ulysses degree 2 does not divide"),
            (("ring", *SMALL, "--seq", "1G", "--heads", "512"), "are too large to run here"),
        ],
    )
    def test_bad_input_is_one_line(self, words, told):
        assert_refused(command("time", *words, ranks=2, timeout=60), told)

    def test_a_file_that_fails_while_it_is_written_ends_all_ranks_at_once(self):
        if not os.path.exists("/dev/full"):
            pytest.skip("no /dev/full")
        one = ("check", "ring", "--phase", "prefill", "--mask", "full", "--layout", "zigzag", *SMALL)
        for words in (("time", "ring", *QUICK), one):
            begun = time.monotonic()
            done = command(*words, "--timeline", "/dev/full", ranks=2, timeout=60)
            assert_refused(done, "cannot write /dev/full: No space left on device")
            assert time.monotonic() - begun < launch.PATIENCE

    def test_where_numba_is_off_numpy_attends_and_that_is_said(self):
        done = command("time", "ring", *SMALL, "--repeats", "1", ranks=2, NUMBA_DISABLE_JIT="1")

        assert done.returncode == 0, done.stderr
        assert "kernel numpy" in done.stdout
        assert done.stderr.count("ringloom-run: numba is off (NUMBA_DISABLE_JIT): kernel numpy") == 1
        done = command("time", "ring", *SMALL, "--kernel", "numba", ranks=2, timeout=60, NUMBA_DISABLE_JIT="1")
        assert_refused(done, "--kernel numba: numba is off (NUMBA_DISABLE_JIT); --kernel numpy needs no compiler")

    def test_more_ranks_than_cores_are_refused_unless_they_are_asked_for(self):
        ranks = len(os.sched_getaffinity(0)) + 1
        if ranks > 9:
            pytest.skip(f"{ranks} ranks, one more than the cores here, are too many to start in a test")
        assert_refused(
            command("time", "ring", *QUICK, ranks=ranks, timeout=60), f"{ranks} ranks on ", "--oversubscribe"
        )
        done = command("time", "ring", *QUICK, "--oversubscribe", ranks=ranks)
        assert done.returncode == 0, done.stderr

    @pytest.mark.parametrize(
        "raised, told",
        [
            ("RuntimeError('planted')", "error on rank 1: RuntimeError: planted"),
            ("SystemExit('planted')", "error on rank 1: SystemExit: planted"),
            ("KeyboardInterrupt", ""),
        ],
    )
    def test_a_rank_that_fails_ends_the_others_with_its_own_message(self, raised, told, tmp_path):
        code = (
            "import sys\n"
            "from executor import commands, launch, lower\n"
            "launch.prepare()\n"
            "from mpi4py import MPI\n"
            "def fails(program, clock):\n"
            "    if MPI.COMM_WORLD.Get_rank() == 1:\n"
            f"        raise {raised}\n"
            "    MPI.COMM_WORLD.Barrier()\n"
            "import executor.timing\n"
            "executor.timing.execute = fails\n"
            "commands.main()\n"
        )
        words = [MPIEXEC, "-n", "2", sys.executable, "-c", code, "time", "ring", *QUICK, "--timeline", tmp_path / "t"]
        done = subprocess.run(list(map(str, words)), cwd=ROOT, env=clean(), capture_output=True, text=True, timeout=60)

        assert done.returncode != 0
        assert told in done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        assert not (tmp_path / "t").exists()

    def test_an_interrupted_run_leaves_no_file(self, tmp_path):
        words = [sys.executable, "-m", "executor.commands", "time", "ring", *SMALL, "--kernel", "numpy"]
        words += ["--repeats", "10000000", "--timeline", str(tmp_path / "t.json")]
        job = subprocess.Popen(
            [MPIEXEC, "-n", "2", *words], cwd=ROOT, env=clean(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        time.sleep(3)
        job.send_signal(signal.SIGINT)

        job.communicate(timeout=60)

        assert job.returncode != 0
        assert list(tmp_path.iterdir()) == []
