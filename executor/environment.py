"""What a time depends on besides the schedule: the machine, its libraries, pinning and load, as a record."""

from __future__ import annotations

import datetime
import os
import platform
import re
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from executor.launch import BLAS_THREADS

if TYPE_CHECKING:
    from mpi4py import MPI

MPI_TEXT = 60  # characters of the library's name and version


def environment(comm: MPI.Comm, pinned: str) -> dict[str, Any]:
    """Return the record of where all ranks run; all ranks together.

    Args:
        pinned: how ranks are bound to cores, in words.
    """
    here = socket.gethostname(), _allowed()
    ranks = comm.allgather(here)
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "hosts": sorted({host for host, _ in ranks}),
        "ranks": comm.Get_size(),
        "cpu": cpu(),
        "cores": os.cpu_count() or 1,
        "gpus": gpus(),
        "mpi": mpi_library(),
        "mpi4py": _version("mpi4py"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": _version("numba"),
        "blas": blas(),
        "threads": {name: os.environ.get(name, "") for name in BLAS_THREADS},
        "affinity": [cores for _, cores in ranks],
        "pinned": pinned,
        "load_before": load(),
    }


def load() -> list[float]:
    """The load averages of this host, of 1, 5 and 15 minutes."""
    return [round(x, 2) for x in os.getloadavg()] if hasattr(os, "getloadavg") else []


def mpi_library() -> str:
    """The MPI library and its version, in a few words."""
    from mpi4py import MPI

    first = MPI.Get_library_version().splitlines()[0]
    return " ".join(first.replace("Version:", "").split())[:MPI_TEXT]


def cpu() -> str:
    """The model of the processor, with its family where the name alone says little."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    found = {
        key: re.search(rf"^{key}\s*:\s*(.+)$", text, re.MULTILINE) for key in ("model name", "cpu family", "model")
    }
    name, family, model = (m[1].strip() if m else "" for m in found.values())
    return f"{name or platform.machine()} (family {family}, model {model})" if family else name or platform.machine()


def gpus() -> list[str]:
    """The GPUs whose driver says that they are here."""
    found = []
    for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        try:
            model = re.search(r"Model:\s*(.+)", file.read_text(errors="replace"))
        except OSError:
            continue
        found.append(model[1].strip() if model else "NVIDIA")
    return found


def blas() -> str:
    """The BLAS that NumPy was built with."""
    config: Any = np.show_config(mode="dicts")
    about = config.get("Build Dependencies", {}).get("blas", {}) if isinstance(config, dict) else {}
    return " ".join(str(about[key]) for key in ("name", "version") if about.get(key)) or "unknown"


def _version(name: str) -> str:
    module = sys.modules.get(name)
    return str(getattr(module, "__version__", "")) or "not loaded"


def _allowed() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
