"""Starting and ending: what cannot run is refused in one line by one rank, with every rank ended."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from executor import launch
from executor.errors import BadInput
from tests.executor.ranks import MPIEXEC, ROOT, assert_refused, clean, command, needs_mpi, program

pytestmark = needs_mpi


@pytest.mark.parametrize(
    "words, parts",
    [
        (["rnig"], ["no algorithm 'rnig'", "nearest is ring"]),
        (["nowhere.py:mine"], ["no file 'nowhere.py' to load algorithm 'mine' from"]),
        (["ring", "--mesh", "ring=4"], ["mesh ring=4 needs 4 ranks: MPI has 2"]),
        (["ring", "--mesh", "ring=1"], ["mesh ring=1 uses 1 ranks: MPI has 2"]),
        (["ring", "--mesh", "ring"], ["a mesh is written axis=size", "got 'ring'"]),
        (["ring", "--mesh", "ring=x"], ["a mesh is written axis=size", "got 'ring=x'"]),
        (["ring", "--mesh", "row=1,col=2"], ["nothing to check", "needs mesh axes ring, got row=1,col=2"]),
        (["ring", "--tp", "3"], ["tp=3", "MPI has 2"]),
        (["ring", "--dtype", "bfloat16"], ["dtype bfloat16 cannot be run", "float64, float32, float16"]),
        (["ring", "--dtype", "bf16"], ["dtype bfloat16 cannot be run"]),
        (["ring", "--dtype", "flaot64"], ["no dtype 'flaot64'", "nearest is float64"]),
        (["ring", "--kernel", "cuda"], ["no kernel 'cuda': expected one of dense, numpy, numba"]),
        (["ring", "--layout", "zagzig"], ["no layout 'zagzig'"]),
        (["ring", "--mask", "casual"], ["no mask 'casual'"]),
        (["ring", "--phase", "training"], ["no phase 'training'", "nearest is train"]),
        (["ring", "--phase", "decode"], ["nothing to check: ring: is written for prefill, train, not decode"]),
        (["tree", "--ways", "all_reduce=tree"], ["no way 'tree' for all_reduce"]),
        (["tree", "--ways", "all_reduce=ring", "--native"], ["--native and --ways"]),
        (["ulysses", "--heads", "3"], ["nothing to check", "ulysses degree 2 does not divide the 3 query heads"]),
        (["ring", "--heads", "-1"], ["--heads", "-1"]),
        (["ring", "--heads", "4", "--kv-heads", "3"], ["kv_heads=3 must divide heads=4"]),
        (["ring", "--seq", "1.0001K"], ["--seq", "whole number"]),
        (["ring", "--seq", "64G"], ["too"]),
        (["ring", "--inputs", "nowhere.npz"], ["inputs nowhere.npz cannot be read as .npz"]),
        (["ring", "--timeline", "nowhere/t.json"], ["--timeline is of one case"]),
        (["ring", "--sequence", "4"], ["No such option '--sequence'"]),
        (["--seq", "4"], ["Missing argument"]),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else None,
)
def test_bad_input_is_one_line_of_rank_0_and_ends_every_rank(words, parts):
    assert_refused(command("check", *words, ranks=2, timeout=60), *parts)


def saved(path, **arrays):
    np.savez(path, **arrays)
    return path


def normal(*shape, dtype="float64"):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def test_inputs_from_a_file_are_proven_on(tmp_path):
    file = saved(tmp_path / "in.npz", q=normal(9, 4, 8), k=normal(13, 2, 8), v=normal(13, 2, 5))

    done = command("check", "ring", "all_gather_kv", "--inputs", file, "--json", ranks=2)

    assert done.returncode == 0, done.stderr
    worst = json.loads(done.stdout)["results"][0]["worst"]
    assert "9 of 13 tokens, 4/2 heads x 8/5, float64" in worst


@pytest.mark.parametrize(
    "spoil, parts",
    [
        (lambda a: a["k"].__setitem__((2, 1, 3), np.nan), ["inputs must be finite: k[2, 1, 3] is nan"]),
        (lambda a: a["q"].__setitem__((0, 0, 0), np.inf), ["inputs must be finite: q[0, 0, 0] is inf"]),
        (lambda a: a.pop("k"), ["no array k"]),
        (lambda a: a.update(q=a["q"][0]), ["q must be (tokens, batch * heads, width), got shape (4, 8)"]),
        (lambda a: a.update(k=a["k"][:5]), ["9 queries, 5 keys"]),
        (lambda a: a.update(q=a["q"].astype("int64")), ["no dtype 'int64'"]),
        (lambda a: a.update(v=a["v"][:, :1]), ["input v must be float64 (13, 2, 5), got float64 (13, 1, 5)"]),
    ],
)
def test_inputs_that_cannot_be_run_are_refused(tmp_path, spoil, parts):
    arrays = {"q": normal(9, 4, 8), "k": normal(13, 2, 8), "v": normal(13, 2, 5)}
    spoil(arrays)

    done = command("check", "all_gather_kv", "--inputs", saved(tmp_path / "in.npz", **arrays), ranks=2, timeout=60)

    assert_refused(done, *parts)


@pytest.mark.parametrize("text", [b"", b"no zip", b"PK\x03\x04 cut short"])
def test_a_file_that_is_no_npz_is_refused(tmp_path, text):
    (tmp_path / "in.npz").write_bytes(text)

    assert_refused(command("check", "ring", "--inputs", tmp_path / "in.npz", ranks=2, timeout=60), "cannot be read as")


@pytest.mark.parametrize(
    "source, message",
    [
        ("", "has no @spmd function 'mine': it has none"),
        ("syntax error", "does not load: SyntaxError"),
        ("from algorithms.ir import spmd\n@spmd('cp')\ndef mine(me, problem):\n    return nothing", "NameError"),
        ("from algorithms.ir import spmd\n@spmd('cp')\ndef mine(me, problem):\n    if me.coords[0]: pass", "S12: "),
    ],
)
def test_somebody_elses_algorithm_that_does_not_trace_is_refused(tmp_path, source, message):
    (tmp_path / "mine.py").write_text(source)

    assert_refused(command("check", f"{tmp_path / 'mine.py'}:mine", ranks=2, timeout=60), message)


@pytest.mark.parametrize("name", ["SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"])
def test_a_launcher_of_other_size_than_mpi_proves_nothing(name):
    # as when four ranks are started by a launcher that this MPI does not know: each believes to be alone
    assert_refused(command("check", "ring", timeout=60, **{name: "4"}), f"{name} says 4 ranks, MPI has 1")


def test_a_size_that_lies_on_every_rank_is_told_once():
    done = command("check", "ring", ranks=2, timeout=60, OMPI_COMM_WORLD_SIZE="5")

    assert_refused(done, "OMPI_COMM_WORLD_SIZE says 5 ranks, MPI has 2")


@pytest.mark.parametrize(
    "environ, told",
    [
        ({"SLURM_NTASKS": "8"}, "SLURM_NTASKS says 8 ranks, MPI has 4"),
        ({"MPI_LOCALNRANKS": "3"}, "3 ranks on this host"),
    ],
)
def test_sizes_that_differ_are_both_named(environ, told):
    with pytest.raises(BadInput, match=told):
        launch.agree(4, 2, environ)


def test_sizes_that_agree_pass():
    launch.agree(4, 2, {"SLURM_NTASKS": "4", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2", "OMPI_COMM_WORLD_SIZE": "x"})


def test_launch_starts_mpiexec_itself():
    done = command("check", "ring", "--launch", 2, "--layout", "zigzag", "--mask=full", timeout=120)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 ranks on 1 host (")


def test_launch_passes_the_exit_status_on():
    assert_refused(command("check", "rnig", "--launch=2", timeout=60), "no algorithm 'rnig'")


def test_launch_inside_a_launcher_is_refused():
    assert_refused(command("check", "ring", "--launch", 2, ranks=2, timeout=60), "--launch 2: these are 2 ranks")


def test_without_mpiexec_launch_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(BadInput, match=r"--launch 2 needs mpiexec, and none is found: pip install 'ringloom\[mpi\]'"):
        launch.again(2, [])


def test_without_mpi4py_the_extra_is_named():
    source = "import sys; sys.modules['mpi4py'] = None; sys.argv = ['', 'check', 'ring']\n"
    done = program(source + "from executor.commands import main; main()", ranks=None, timeout=60)

    assert_refused(done, "MPI is missing", "pip install 'ringloom[mpi]', or use --local N")


def test_in_one_process_no_mpi_is_needed():
    source = "import sys; sys.modules['mpi4py'] = None; sys.argv = ['', 'check', 'all', '--local', '4']\n"
    done = program(source + "from executor.commands import main; main()", ranks=None, timeout=120)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 ranks on 1 host (")


GUARDED = "import sys\nfrom executor import launch\nlaunch.prepare()\n{body}\nsys.exit(launch.guarded(main))"


def test_an_error_on_one_rank_only_ends_them_all_with_one_line_from_it():
    body = """
def main():
    comm = launch.world()
    if comm.rank == 1:
        raise RuntimeError("the disk of\\nthis rank")
    comm.Barrier()
"""
    done = program(GUARDED.format(body=body), ranks=3, timeout=60)

    assert done.returncode == 1
    assert [x for x in done.stderr.splitlines() if "ringloom-run" in x] == [
        "ringloom-run: error on rank 1: RuntimeError: the disk of this rank"
    ]
    assert "Traceback" not in done.stderr


def test_bad_input_that_one_rank_alone_finds_is_told_and_ends_them_all():
    body = """
launch.PATIENCE = 0.5
def main():
    comm = launch.world()
    if comm.rank == 2:
        raise launch.BadInput("this rank has no such file")
    comm.Barrier()
"""
    done = program(GUARDED.format(body=body), ranks=3, timeout=60)

    assert_refused(done, "this rank has no such file (on rank 2 only)")


def test_ranks_have_one_blas_thread_each_and_yield_when_there_are_more_than_cores():
    body = """
import os
def main():
    rank = launch.world().rank
    crowded = os.environ.get("MPIR_CVAR_ENABLE_HEAVY_YIELD")
    assert crowded == ("1" if 3 > launch.cores() else None), crowded
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
"""
    assert program(GUARDED.format(body=body), ranks=3, timeout=60).returncode == 0


@pytest.mark.parametrize(
    "environ, ranks",
    [
        ({}, None),
        ({"MPI_LOCALNRANKS": "3", "SLURM_STEP_TASKS_PER_NODE": "9"}, 3),
        ({"SLURM_STEP_TASKS_PER_NODE": "4(x2),3"}, 4),
        ({"SLURM_STEP_TASKS_PER_NODE": "5,4"}, 5),
    ],
)
def test_how_many_ranks_share_a_host_is_read_from_the_launcher(environ, ranks):
    assert launch.beside_each_other(environ) == ranks


def test_an_interrupt_leaves_no_rank_and_no_traceback():
    body = """
def main():
    comm = launch.world()
    print("up", flush=True)
    if comm.rank == 0:
        import time
        time.sleep(60)
    comm.Barrier()
"""
    words = [MPIEXEC, "-n", "2", sys.executable, "-c", GUARDED.format(body=body)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, cwd=ROOT, env=clean(), stdout=pipe, stderr=pipe, text=True, process_group=0
    ) as started:
        told = ""
        while told.count("up") < 2:
            told += started.stdout.readline()
        before = time.monotonic()
        os.killpg(started.pid, signal.SIGINT)
        _, errors = started.communicate(timeout=30)

    assert started.returncode != 0
    assert time.monotonic() - before < 30
    assert "Traceback" not in errors


def test_an_interrupt_in_one_process_is_one_line():
    body = "def main():\n    raise KeyboardInterrupt"
    done = program(GUARDED.format(body=body), ranks=None, timeout=60)

    assert (done.returncode, done.stderr) == (130, "ringloom-run: interrupted\n")
