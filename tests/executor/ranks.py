"""Starting commands and small programs on several ranks of MPI."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BESIDE = Path(sys.executable).with_name("mpiexec")
MPIEXEC = str(BESIDE) if BESIDE.exists() else shutil.which("mpiexec")

needs_mpi = [
    pytest.mark.xdist_group("mpi"),
    pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is missing: pip install .[mpi]"),
    pytest.mark.skipif(MPIEXEC is None, reason="mpiexec is missing: pip install .[mpi]"),
]


def clean(**more):
    """The environment without what an outer launcher left in it."""
    outer = ("SLURM_", "PMI", "OMPI_", "MPI_LOCAL", "HYDI_")
    return {k: v for k, v in os.environ.items() if not k.startswith(outer)} | more


def command(*arguments, ranks=None, timeout=300, **environ):
    """Run `ringloom-run` on so many ranks, or without mpiexec."""
    words = [sys.executable, "-m", "executor.commands", *map(str, arguments)]
    return _run(words, ranks, timeout, environ)


def program(source, *arguments, ranks, timeout=300, **environ):
    """Run a Python program on so many ranks."""
    return _run([sys.executable, "-c", source, *map(str, arguments)], ranks, timeout, environ)


def _run(words, ranks, timeout, environ):
    words = words if ranks is None else [MPIEXEC, "-n", str(ranks), *words]
    return subprocess.run(words, cwd=ROOT, env=clean(**environ), capture_output=True, text=True, timeout=timeout)


def assert_refused(done, *parts):
    """Bad input: exit status 2, and one line of ours that has these parts, whatever banner a launcher adds."""
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "ringloom-run" in line]
    assert done.returncode == 2, done
    assert len(ours) == 1, done
    assert all(part in ours[0] for part in parts), ours
    assert "Traceback" not in done.stdout + done.stderr
