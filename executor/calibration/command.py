"""The `calibrate` command from its options to its exit status, the same on every rank."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from algorithms.ir.environment import UNSTEADY
from algorithms.options import DTYPES, algorithms_from
from executor import launch
from executor.environment import environment, load
from executor.errors import BadInput
from executor.gpu.choice import kernel_for
from executor.interpret import kernel_called
from executor.limits import RUNNABLE
from executor.memory import keep_freed
from executor.outputs import output
from executor.pinning import settle
from executor.proof import read

if TYPE_CHECKING:
    from mpi4py import MPI

    from executor.calibration.items import Item
    from executor.kernels import Kernel
    from executor.mpi import Streams

KiB, MiB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Wanted:
    """What to measure, as typed."""

    out: str
    algorithms: str
    dtypes: str
    head_dim: int
    kernel: str
    rounds: int | None
    quick: bool
    pin: bool
    oversubscribe: bool


def calibrated(wanted: Wanted) -> int:
    """Measure this machine on all ranks of MPI and write a cluster file; return the exit status.

    Raises:
        BadInput: before anything is measured.
    """
    comm = launch.world()
    if comm.Get_size() < 2:
        raise BadInput("calibrate measures messages too: it needs 2 ranks or more, say --launch 2")
    path, wanted = output("--out", wanted.out), replace(wanted, kernel=kernel_for("cpu", wanted.kernel))
    kernel = read(lambda: kernel_called(wanted.kernel))
    if path.suffix != ".json":
        raise BadInput(f"--out writes a cluster file: expected a name that ends in .json, got {wanted.out}")
    dtypes = types_from(wanted.dtypes)
    programs = read(lambda: algorithms_from(wanted.algorithms))
    launch.alike(comm, "was asked for something else than", repr(wanted))
    about = environment(comm, settle(comm, wanted.pin, wanted.oversubscribe))

    from executor.calibration.cluster import cluster, measured_record
    from executor.calibration.items import measured
    from executor.mpi import Streams

    keep_freed()
    streams = Streams(comm)
    items = list(to_measure(programs, dtypes, wanted.head_dim, kernel, streams, wanted.quick))
    sections = measured(items, comm, 1 if wanted.quick else 3, wanted.rounds or (5 if wanted.quick else 9))
    streams.close()
    record = measured_record(sections, {**about, "load_after": load()}, wanted.kernel)
    graph = cluster(record, f"{socket.gethostname()}, {comm.Get_size()} ranks, measured {about['date'][:10]}")
    from topologies.files.graphs import write

    launch.by_rank_0(comm, lambda: write(graph, str(path)))
    if comm.Get_rank() == 0:
        print(_said(record, wanted.out), flush=True)
    return 0


def types_from(text: str) -> list[str]:
    """Read the types to measure.

    Raises:
        BadInput: one that NumPy does not have.
    """
    found = [DTYPES.get(name.strip(), name.strip()) for name in text.split(",") if name.strip()]
    for name in found:
        if name not in RUNNABLE:
            raise BadInput(f"dtype {name} cannot be measured, NumPy has no such type: expected {', '.join(RUNNABLE)}")
    if not found:
        raise BadInput(f"--dtype names no type: expected some of {', '.join(RUNNABLE)}")
    return list(dict.fromkeys(found))


def to_measure(
    programs: Mapping[str, Mapping[str, Any]],
    dtypes: list[str],
    head_dim: int,
    kernel: Kernel,
    streams: Streams,
    quick: bool,
) -> Iterator[Item]:
    """Yield all that a calibration measures, in the order of a round."""
    from executor.calibration.kernels import QUICK, THOROUGH, gemm, kernels
    from executor.calibration.messages import exchanges, lines, overlaps
    from executor.calibration.specimens import Specimens, copies, sources

    comm: MPI.Comm = streams.comm
    steps = 16 if quick else 4
    sizes = [KiB * steps**k for k in range(9) if KiB * steps**k <= 64 * MiB]
    yield lines()
    yield from exchanges(comm, sizes)
    yield from overlaps(comm, [8 * MiB, 32 * MiB])
    yield from copies(sizes)
    specimens = Specimens(kernel, streams)
    for dtype in dtypes:
        yield gemm(dtype)
        yield from kernels(kernel, dtype, head_dim, QUICK if quick else THOROUGH)
        found = sources(programs, comm.Get_size(), dtype)
        yield from specimens.items(found, dtype, head_dim, (1, 64, 1024) if quick else (1, 16, 128, 512, 2048))


def _said(record: Mapping[str, Any], out: str) -> str:
    """What was measured, in a few lines."""
    about, exchange = record["environment"], record["exchange"]
    rates = ", ".join(f"{row['flop_rate'] / 1e9:.3g} GFLOP/s in {row['dtype']}" for row in record["gemm"])
    fastest = max(row["nbytes"] / row["seconds"] for row in exchange)
    rows = [row for name in ("kernels", "exchange", "collectives", "glue") for row in record[name]]
    unsteady = sum(row["high"] > UNSTEADY * row["low"] for row in rows)
    return "\n".join(
        [
            f"{about['ranks']} ranks, {about['pinned']}, {about['cpu']}, {about['mpi']}, kernel {about['kernel']}; "
            f"load {about['load_before'][0]} before, {about['load_after'][0]} after",
            f"a rank: {rates} for a matrix product; an exchange: {exchange[0]['seconds'] * 1e6:.3g} us for "
            f"{exchange[0]['nbytes']} bytes, {fastest / 1e9:.3g} GB/s each way at most; "
            f"computing hides {min(1.0, max(0.0, record['overhead']['hidden'])):.0%} of it",
            f"{len(rows)} rows written to {out}; {unsteady} varied by more than {UNSTEADY:g} from p10 to p90",
        ]
    )
