"""Starting and ending under a launcher: sizes that agree, one line for an error, every rank ended.

Only the standard library and click are imported here, so that the environment is set before numpy and MPI read it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from executor.errors import BadInput

if TYPE_CHECKING:
    from mpi4py import MPI

BLAS_THREADS = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "OMP_NUM_THREADS",
)
SLURM_SIZES = ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
SIZES = (  # what launchers tell the ranks they start: how many there are
    "PMI_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "PALS_SIZE",
    "FLUX_JOB_SIZE",
    "JSM_NAMESPACE_SIZE",
    *SLURM_SIZES,
)
STEP_SIZES = tuple(name for name in SIZES if name != "SLURM_NTASKS")  # a batch script has that one, and is no rank
LOCAL_SIZES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "LOCAL_WORLD_SIZE")  # on this host; torchrun's last
RANKS = (
    "PMI_RANK",
    "OMPI_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_RANK",
    "PALS_RANKID",
    "FLUX_TASK_RANK",
    "JSM_NAMESPACE_RANK",
    "SLURM_PROCID",
)
COMMAND = "ringloom-run"
PATIENCE = 20.0  # seconds that a rank waits for the others to find the same error

_meeting: list[MPI.Comm] = []  # a communicator for the ranks to end together on


def prepare() -> None:
    """Set what numpy and MPI read when they start: one BLAS thread a rank, and ranks that yield when crowded."""
    for name in BLAS_THREADS:
        os.environ.setdefault(name, "1")
    if (size := beside_each_other(os.environ)) and size > cores():
        os.environ.setdefault("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def beside_each_other(environ: Mapping[str, str]) -> int | None:
    """How many ranks share this host, if the launcher tells; Slurm writes 4 for each of 2 hosts as 4(x2)."""
    by_slurm = environ.get("SLURM_STEP_TASKS_PER_NODE", "").partition("(")[0].partition(",")[0]
    return said((*LOCAL_SIZES, "by_slurm"), {**environ, "by_slurm": by_slurm})


def said(names: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """The first of these numbers that the environment has."""
    texts = (environ.get(name, "") for name in names)
    return next((int(text) for text in texts if text.isdecimal() and len(text) < 10), None)


def world() -> MPI.Comm:
    """Start MPI and return all its ranks, sure that they are those the launcher started.

    Raises:
        BadInput: MPI is missing, or its size is not the launcher's.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        line = _line(error) if isinstance(error, ImportError) else str(error).strip().partition("\n")[0]
        raise BadInput(f"MPI is missing ({line}): pip install 'ringloom[mpi]', or use --local N") from None
    comm = MPI.COMM_WORLD
    if not _meeting:
        _meeting.append(comm.Dup())
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a rank inside MPI would never see KeyboardInterrupt
    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    agree(comm.Get_size(), here.Get_size(), os.environ)
    here.Free()
    return comm


def agree(size: int, local: int, environ: Mapping[str, str]) -> None:
    """Refuse to run when the launcher started another number of ranks than MPI knows of.

    Four ranks that each believe to be alone would each prove an algorithm on one rank. Where another launcher started
    several and says so, Slurm's sizes are those of the daemons by which it did.

    Raises:
        BadInput: the variable, its number and MPI's.
    """
    others = [name for name in SIZES if name not in SLURM_SIZES]
    sizes = others if size > 1 and said(others, environ) == size else SIZES
    for names, known, where in ((sizes, size, ""), (LOCAL_SIZES, local, " on this host")):
        for name in names:
            told = said([name], environ)
            if told is not None and told != known:
                raise BadInput(
                    f"{name} says {told} ranks{where}, MPI has {known}: this launcher does not start this MPI's ranks; "
                    f"use its own mpiexec (and unset {name} if it is left from an outer job)"
                )


def alike(comm: MPI.Comm, did: str, text: str) -> None:
    """Be sure that all ranks say the same, or they would wait for each other for ever.

    Args:
        did: what a rank that differs did, before "than rank 0".
    Raises:
        BadInput: on every rank, the first that differs.
    """
    quietly(comm)
    digests = comm.allgather(hashlib.sha256(text.encode()).digest())
    for rank, digest in enumerate(digests):
        if digest != digests[0]:
            raise BadInput(f"rank {rank} {did} rank 0: all ranks run one program")


def by_rank_0(comm: MPI.Comm, work: Callable[[], Any]) -> None:
    """Let rank 0 do what may be refused, such as writing a file; the others learn of it, and none waits in vain.

    Raises:
        BadInput: on every rank, what rank 0 was refused.
    """
    refused = None
    if comm.Get_rank() == 0:
        try:
            work()
        except ValueError as error:
            refused = str(error)
    quietly(comm)
    if (refused := comm.bcast(refused, root=0)) is not None:
        raise BadInput(refused)


def refuse_ranks(option: str) -> None:
    """Refuse an option that is for one process alone, where a launcher started several.

    Raises:
        BadInput: how many there are.
    """
    if (size := said(STEP_SIZES, os.environ)) and size > 1:
        raise BadInput(f"{option}: these are {size} ranks of a launcher already")


def again(ranks: int, command: Sequence[str]) -> NoReturn:
    """Become `mpiexec -n ranks` of a command of this Python.

    Raises:
        BadInput: there is no mpiexec, or this is one of its ranks already.
    """
    refuse_ranks(f"--launch {ranks}")
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if os.access(beside, os.X_OK) else shutil.which("mpiexec")
    if mpiexec is None:
        raise BadInput(f"--launch {ranks} needs mpiexec, and none is found: pip install 'ringloom[mpi]'")
    os.execv(mpiexec, [mpiexec, "-n", str(ranks), sys.executable, *command])


def guarded(main: Callable[[], Any]) -> int:
    """Run a command and return its exit status; no traceback reaches the user, and no rank is left behind.

    2: bad input, that all ranks find alike and rank 0 prints; 1: anything else, printed by the rank it befell.
    """
    try:
        return int(main() or 0)
    except (BadInput, click.ClickException) as error:
        refuse(error.format_message() if isinstance(error, click.ClickException) else str(error))
        return 2
    except (KeyboardInterrupt, click.Abort):
        if _rank() == 0:
            print(f"{COMMAND}: interrupted", file=sys.stderr, flush=True)
        return _ended(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter fails to flush it
        return 1
    except (Exception, SystemExit) as error:
        where = f" on rank {_rank()}" if _meeting and _meeting[0].Get_size() > 1 else ""
        print(f"{COMMAND}: error{where}: {type(error).__name__}: {_line(error)}", file=sys.stderr, flush=True)
        return _ended(1)


def _ended(status: int) -> int:
    """The exit status, after the other ranks were ended, which may wait for this one."""
    if _meeting and _meeting[0].Get_size() > 1:
        _meeting[0].Abort(status)
    return status


def remark(message: str) -> None:
    """Say something about a run that goes on, once."""
    if _rank() == 0:
        print(f"{COMMAND}: {message}", file=sys.stderr, flush=True)


def refuse(message: str) -> None:
    """Print bad input once, from rank 0, and bring all ranks to this point before any ends."""
    line = f"{COMMAND}: error: {' '.join(message.split())}"
    if _rank() == 0:
        print(line, file=sys.stderr, flush=True)
    size = said(SIZES, os.environ) or 1
    if not _meeting and size > 1:
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError):
            time.sleep(1.0)  # a launcher ends all ranks with the first: let rank 0 print
            return
        _meeting.append(MPI.COMM_WORLD.Dup())
    if _meeting:
        _gather(_meeting[0], line)


def _gather(comm: MPI.Comm, line: str) -> None:
    """Wait for the other ranks; if they do not come, only this one found the error: say it and end them.

    mpiexec may then report the signal that ended one of them, in place of 2.
    """
    request, end = comm.Ibarrier(), time.monotonic() + PATIENCE
    while not request.Test():
        if time.monotonic() > end:
            if _rank():
                print(f"{line} (on rank {_rank()} only)", file=sys.stderr, flush=True)
            comm.Abort(2)
        time.sleep(0.005)


def quietly(comm: MPI.Comm) -> None:
    """Meet all ranks without using the cores that one of them needs."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.001)


def _rank() -> int:
    """This rank by MPI, or by a launcher that MPI does not know; a number that cannot be is left from another job."""
    if _meeting and _meeting[0].Get_size() > 1:
        return _meeting[0].Get_rank()
    rank = said(RANKS, os.environ) or 0
    return rank if rank < (said(SIZES, os.environ) or 1) else 0


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or "no message"
