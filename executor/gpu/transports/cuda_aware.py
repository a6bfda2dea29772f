"""CUDA-aware: MPI is given addresses in a GPU's memory, and knows what to do with them."""

from __future__ import annotations

import ctypes
from typing import Any

from mpi4py import MPI

from executor.gpu.device import Device
from executor.gpu.transports import Receives, Sends


def unable(comm: MPI.Comm) -> str:
    """Why it cannot be used, if so."""
    library = " ".join(MPI.Get_library_version().split())[:40]
    says = support()
    if says:
        return ""
    does = "does not say that it takes" if says is None else "says that it does not take"
    return f"this MPI ({library}) {does} GPU memory: use a CUDA-aware build, or --transport staged"


def support() -> bool | None:
    """Whether MPI says that it takes GPU memory; None: it has no such question.

    Open MPI answers MPIX_Query_cuda_support, MPICH MPIX_GPU_query_support.
    """
    for place in (MPI.__file__, None):
        try:
            library = ctypes.CDLL(place)
        except OSError:
            continue
        if hasattr(library, "MPIX_Query_cuda_support"):
            return bool(library.MPIX_Query_cuda_support())
        if hasattr(library, "MPIX_GPU_query_support"):
            cuda, answer = 0, ctypes.c_int(0)  # MPIX_GPU_SUPPORT_CUDA
            return library.MPIX_GPU_query_support(cuda, ctypes.byref(answer)) == 0 and bool(answer.value)
    return None


def make(comm: MPI.Comm, device: Device) -> CudaAware:
    """Open one end."""
    return CudaAware(comm, device)


class CudaAware:
    """One rank's end."""

    def __init__(self, comm: MPI.Comm, device: Device) -> None:
        """Take a stream: MPI uses none, but what packs and reduces does."""
        self.comm, self.device, self.stream = comm, device, device.stream()

    def start(self, sends: Sends, receives: Receives, tag: int) -> Any:
        """Give MPI the arrays, when what leaves is written and nothing reads the memory that others come to."""
        device, comm = self.device, self.comm
        device.after(self.stream, device.mark(device.compute))  # rule 3 of executor.gpu.run
        with device.on(self.stream):
            came = [(member, device.xp.empty(nbytes, dtype=device.xp.uint8)) for member, nbytes in receives]
        device.finish(self.stream)
        requests = [comm.Irecv([array, MPI.BYTE], member, tag) for member, array in came]
        requests += [comm.Isend([array, MPI.BYTE], member, tag) for member, array in sends]
        return requests, sends, came

    def finish(self, started: Any) -> list[Any]:
        """Wait for MPI; what it wrote is there for every stream."""
        requests, _, came = started
        MPI.Request.Waitall(requests)
        return [array for _, array in came]
