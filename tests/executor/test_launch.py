"""Starting and ending: sizes that agree, one line for an error, every rank ended, whatever ends one of them."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from executor import commands, launch
from executor.errors import BadInput
from tests.executor.ranks import MPIEXEC, ROOT, assert_refused, clean, command, needs_mpi, program

pytestmark = needs_mpi


def test_a_launcher_of_other_size_than_mpi_proves_nothing():
    # as when four ranks are started by a launcher that this MPI does not know: each believes to be alone
    assert_refused(command("check", "ring", timeout=60, SLURM_NTASKS="4"), "SLURM_NTASKS says 4 ranks, MPI has 1")


def test_ranks_that_were_asked_for_other_things_do_not_wait_for_each_other():
    words = [sys.executable, "-m", "executor.commands", "check", "ring", "--layout", "zigzag", "--mask"]
    both = [MPIEXEC, "-n", "1", *words, "full", ":", "-n", "1", *words, "causal"]

    done = subprocess.run(both, cwd=ROOT, env=clean(), capture_output=True, text=True, timeout=60)

    assert_refused(done, "rank 1 was asked for something else than rank 0")


def test_a_size_that_lies_on_every_rank_is_told_once():
    done = command("check", "ring", ranks=2, timeout=60, OMPI_COMM_WORLD_SIZE="5")

    assert_refused(done, "OMPI_COMM_WORLD_SIZE says 5 ranks, MPI has 2")


@pytest.mark.parametrize(
    "environ, told",
    [
        *(({name: "8"}, f"{name} says 8 ranks, MPI has 4") for name in launch.SIZES),
        *(({name: "3"}, f"{name} says 3 ranks on this host, MPI has 2") for name in launch.LOCAL_SIZES),
    ],
)
def test_sizes_that_differ_are_both_named(environ, told):
    with pytest.raises(BadInput, match=told):
        launch.agree(4, 2, environ)


def test_sizes_that_agree_pass():
    launch.agree(4, 2, {"SLURM_NTASKS": "4", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2", "OMPI_COMM_WORLD_SIZE": "x"})
    launch.agree(4, 2, {"PMI_SIZE": "9" * 5000, "SLURM_NTASKS": "-1", "MPI_LOCALNRANKS": ""})


def test_slurm_counts_daemons_where_mpiexec_started_the_ranks():
    # mpiexec in a batch job starts one daemon a node by srun, and each starts its ranks
    daemons = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2"}
    for launcher in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"):
        launch.agree(16, 8, {launcher: "16", **daemons})
        with pytest.raises(BadInput, match=f"{launcher} says 16 ranks, MPI has 1"):
            launch.agree(1, 1, {launcher: "16", **daemons})
    with pytest.raises(BadInput, match="SLURM_STEP_NUM_TASKS says 2 ranks, MPI has 1"):
        launch.agree(1, 1, {"PMI_SIZE": "1", **daemons})


@pytest.mark.parametrize(
    "environ, prints",
    [
        ({}, True),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"}, True),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, False),  # ranks that MPI does not know of
        ({"SLURM_PROCID": "7"}, True),  # left from another job: nobody else would print
        ({"SLURM_PROCID": "7", "SLURM_NTASKS": "2"}, True),
    ],
)
def test_one_rank_prints_and_somebody_does(environ, prints, monkeypatch, capsys):
    for name in (*launch.RANKS, *launch.SIZES):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    def main():
        raise KeyboardInterrupt

    assert launch.guarded(main) == 130
    assert capsys.readouterr().err == "ringloom-run: interrupted\n" * prints


def test_launch_starts_mpiexec_itself_from_any_folder_and_a_batch_script(tmp_path):
    (tmp_path / "algorithms").mkdir()  # somebody's folder of the same name, which -m would find first
    (tmp_path / "algorithms/__init__.py").touch()
    script = "import sys; from executor.commands import main; main()"
    (tmp_path / "ringloom-run").write_text(script)
    words = [sys.executable, str(tmp_path / "ringloom-run"), "check", "ring", "--launch", "2", "--layout", "zigzag"]
    environ = clean(SLURM_NTASKS="2", PYTHONPATH=str(ROOT), PYTHONSAFEPATH="1")

    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 ranks on 1 host (")


def test_launch_passes_the_exit_status_on():
    assert_refused(command("check", "rnig", "--launch=2", timeout=60), "no algorithm 'rnig'")


@pytest.mark.parametrize("option", ["--launch", "--local"])
def test_what_is_for_one_process_is_refused_inside_a_launcher(option, monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")

    with pytest.raises(BadInput, match=f"{option} 2: these are 2 ranks of a launcher already"):
        commands.cli.main(["check", "ring", option, "2"], standalone_mode=False)


def test_without_mpiexec_launch_says_what_to_install(monkeypatch, tmp_path):
    for name in launch.SIZES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(BadInput, match=r"--launch 2 needs mpiexec, and none is found: pip install 'ringloom\[mpi\]'"):
        launch.again(2, [])


@pytest.mark.parametrize("ranks", [None, 2])
@pytest.mark.parametrize("error", ["ImportError()", "RuntimeError('cannot load MPI library\\nlibmpi.so')"])
def test_without_mpi4py_the_extra_is_named(error, ranks, tmp_path):
    (tmp_path / "mpi4py.py").write_text(f"raise {error}")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])

    done = command("check", "ring", ranks=ranks, timeout=60, PYTHONPATH=path, PYTHONSAFEPATH="1")

    assert_refused(done, "MPI is missing (", "pip install 'ringloom[mpi]', or use --local N")


def test_in_one_process_no_mpi_is_needed():
    source = "import sys; sys.modules['mpi4py'] = None; sys.argv = ['', 'check', 'ring', '--local', '4']\n"
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

    assert done.returncode != 0  # 1, or the signal by which mpiexec ended another rank first
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

    assert done.returncode != 0
    assert [x for x in done.stderr.splitlines() if "ringloom-run" in x] == [
        "ringloom-run: error: this rank has no such file (on rank 2 only)"
    ]
    assert "Traceback" not in done.stderr


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


WAITING = """
import os
def main():
    comm = launch.world()
    print(f"<{os.getpid()}>", flush=True)
    if comm.rank == 0:
        import time
        time.sleep(60)
    comm.Barrier()
"""


@pytest.mark.parametrize(
    "end",
    [
        lambda mpiexec, ranks: os.killpg(mpiexec, signal.SIGINT),
        lambda mpiexec, ranks: os.kill(mpiexec, signal.SIGTERM),
        lambda mpiexec, ranks: os.kill(ranks[1], signal.SIGKILL),
    ],
    ids=["interrupt", "terminate", "kill one rank"],
)
def test_what_ends_one_ends_all_without_a_traceback(end):
    words = [MPIEXEC, "-n", "2", sys.executable, "-c", GUARDED.format(body=WAITING)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, cwd=ROOT, env=clean(), stdout=pipe, stderr=pipe, text=True, process_group=0
    ) as started:
        told = ""
        while told.count(">") < 2:  # a launcher may join lines
            told += started.stdout.readline()
        ranks = [int(pid) for pid in re.findall(r"<(\d+)>", told)]
        before = time.monotonic()
        end(started.pid, ranks)
        _, errors = started.communicate(timeout=30)

    assert started.returncode != 0
    assert time.monotonic() - before < 30
    assert "Traceback" not in errors
    for pid in ranks:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_interrupt_in_one_process_is_one_line():
    body = "def main():\n    raise KeyboardInterrupt"
    done = program(GUARDED.format(body=body), ranks=None, timeout=60)

    assert (done.returncode, done.stderr) == (130, "ringloom-run: interrupted\n")
