"""NCCL: GPUs send to each other in the order of a stream, and the host waits for nothing."""

from __future__ import annotations

import socket
import warnings
from typing import Any

from mpi4py import MPI

from executor.gpu import visible
from executor.gpu.device import Device
from executor.gpu.transports import Receives, Sends


def library() -> Any:
    """CuPy's module of NCCL.

    Raises:
        ImportError: the library is missing.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from cupy.cuda import nccl
    if not nccl.available:
        raise ImportError("NCCL is missing")
    return nccl


def unable(comm: MPI.Comm) -> str:
    """Why it cannot be used, if so."""
    missing = ""
    try:
        library()
    except ImportError:
        missing = "NCCL is missing: pip install nvidia-nccl-cu12 or nvidia-nccl-cu13, as CuPy has it"
    places = comm.allgather(None if missing else (socket.gethostname(), visible.place()))
    return missing or shared(places)


def shared(places: list[tuple[str, str] | None]) -> str:
    """What is wrong with where ranks are: two on one GPU, which NCCL refuses."""
    first: dict[tuple[str, str], int] = {}
    for rank, place in enumerate(places):
        if place is None:
            continue
        if place in first:
            host, gpu = place
            return f"NCCL takes one rank a GPU, ranks {first[place]} and {rank} share {gpu} of {host}: use staged"
        first[place] = rank
    return ""


def make(comm: MPI.Comm, device: Device) -> Nccl:
    """Open one end, with all the others."""
    return Nccl(comm, device, library())


class Nccl:
    """One rank's end."""

    def __init__(self, comm: MPI.Comm, device: Device, nccl: Any) -> None:
        """Meet the other members under an id that the first of them draws."""
        self.device, self.stream, self._nccl = device, device.stream(), nccl
        drawn = comm.bcast(nccl.get_unique_id() if comm.Get_rank() == 0 else None, root=0)
        self._clique = nccl.NcclCommunicator(comm.Get_size(), drawn, comm.Get_rank())

    def start(self, sends: Sends, receives: Receives, tag: int) -> Any:
        """Put all sends and receives into the stream, as one group that cannot wait for itself."""
        device, nccl = self.device, self._nccl
        device.after(self.stream, device.mark(device.compute))  # rule 3 of executor.gpu.run
        with device.on(self.stream):
            came = [(member, device.xp.empty(nbytes, dtype=device.xp.uint8)) for member, nbytes in receives]
        nccl.groupStart()
        for member, array in sends:
            self._clique.send(device.engine.pointer(array), array.size, nccl.NCCL_UINT8, member, self.stream.ptr)
        for member, array in came:
            self._clique.recv(device.engine.pointer(array), array.size, nccl.NCCL_UINT8, member, self.stream.ptr)
        nccl.groupEnd()
        return sends, came

    def finish(self, started: Any) -> list[Any]:
        """It is in the stream already."""
        _, came = started
        return [array for _, array in came]
