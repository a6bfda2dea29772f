"""`ringloom doctor`: versions, MPI, GPU, and where each package was loaded from."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from sim.commands import version

PACKAGES = ("algorithms", "topologies", "sim", "executor")
LIBRARIES = (
    "numpy",
    "numba",
    "networkx",
    "simpy",
    "click",
    "rich",
    "matplotlib",
    "mpi4py",
    "mpich",
    "cupy-cuda12x",
    "cupy-cuda13x",
)
SECONDS = 30  # for a probe
# Probes run in a process of their own: a broken MPI or driver ends the process that loads it.
MPI = "from mpi4py import MPI; print(MPI.Get_library_version().strip().splitlines()[0])"
GPU = """import cupy
for k in range(cupy.cuda.runtime.getDeviceCount()):
    print(cupy.cuda.runtime.getDeviceProperties(k)["name"].decode())"""

NCCL = "from cupy.cuda import nccl; print(nccl.get_version())"


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there.")
def command(as_json: bool) -> None:
    """Say what is installed, what is missing and why, and where each package was loaded from."""
    if as_json:
        sections = {name: dict(rows) for name, rows in report()}
        json.dump({"schema": "ringloom.doctor/1", **sections}, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    for name, rows in report():
        click.echo(f"{name}:")
        for what, text in rows:
            click.echo(f"  {what:<14}{text}")


def report() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Give the sections, each as rows of what and text."""
    yield (
        "versions",
        [
            ("ringloom", version()),
            ("python", f"{platform.python_version()} at {sys.executable}"),
            ("system", platform.platform()),
            *((name, _installed(name)) for name in LIBRARIES),
        ],
    )
    yield "loaded from", [(name, _home(name)) for name in PACKAGES]
    yield "MPI", [("mpiexec", _mpiexec()), ("library", _probe(MPI, "install the extra: ringloom[mpi]"))]
    extra = "install an extra, ringloom[cuda12] or ringloom[cuda13]"
    yield "GPU", [("devices", _probe(GPU, extra)), ("NCCL", _probe(NCCL, extra))]
    yield "numba", [("cache", _cache())]


def _installed(library: str) -> str:
    """The version of a distribution."""
    from importlib import metadata

    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "not installed"


def _home(package: str) -> str:
    """The folder of one of our packages, found without importing it."""
    from importlib.util import find_spec

    spec = find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return places[0] if places else "not found"


def _mpiexec() -> str:
    """The launcher: beside this Python, or on the path."""
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    return found or "not found: install the extra ringloom[mpi], or put the cluster's mpiexec on the path"


def _probe(code: str, remedy: str) -> str:
    """What a line of Python prints, or the last line of why it fails."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"none: {error}"
    if done.returncode == 0:
        return ", ".join(done.stdout.split("\n")[:-1]) or "none"
    lines = done.stderr.strip().splitlines() or [f"the probe ended with status {done.returncode}"]
    return f"none: {lines[-1]}" + (f"; {remedy}" if "ModuleNotFoundError" in lines[-1] else "")


def _cache() -> str:
    """Where the compiled engine is kept, and whether it is there."""
    import os

    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return "off: NUMBA_DISABLE_JIT is set, so that the engine runs uncompiled"
    try:
        from sim.routes import paths
    except Exception as error:  # a numba that is missing or broken is what doctor is asked about
        return f"none: {type(error).__name__}: {error}"
    folder = getattr(getattr(paths, "_cache", None), "cache_path", None)  # numba's own choice
    if folder is None:
        return "none: neither sim/ nor the home can be written, so that every run compiles; set NUMBA_CACHE_DIR"
    files = len(list(Path(folder).glob("*.nbc"))) if Path(folder).is_dir() else 0
    return f"{files} compiled functions in {folder}" if files else f"empty in {folder}: the first run compiles"
