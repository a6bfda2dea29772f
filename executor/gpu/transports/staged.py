"""Staged: copied to pinned memory of the host, sent by any MPI, copied to the other GPU."""

from __future__ import annotations

from typing import Any

from mpi4py import MPI

from executor.gpu.device import Device
from executor.gpu.transports import Receives, Sends


def unable(comm: MPI.Comm) -> str:
    """Why it cannot be used: it always can."""
    return ""


def make(comm: MPI.Comm, device: Device) -> Staged:
    """Open one end."""
    return Staged(comm, device)


class Staged:
    """One rank's end."""

    def __init__(self, comm: MPI.Comm, device: Device) -> None:
        """Take a stream for the copies."""
        self.comm, self.device, self.stream = comm, device, device.stream()
        self._uploading: list[Any] = []

    def start(self, sends: Sends, receives: Receives, tag: int) -> Any:
        """Copy to the host, and give MPI the buffers when they are there."""
        device, comm = self.device, self.comm
        leaving = [(member, device.pinned(array.nbytes)) for member, array in sends]
        for (_, array), (_, buffer) in zip(sends, leaving, strict=True):
            device.download(array, buffer, self.stream)
        arriving = [(member, device.pinned(nbytes)) for member, nbytes in receives]
        requests = [comm.Irecv([buffer, MPI.BYTE], member, tag) for member, buffer in arriving]
        if sends or self._uploading:
            device.finish(self.stream)
        self._uploading.clear()
        requests += [comm.Isend([buffer, MPI.BYTE], member, tag) for member, buffer in leaving]
        return requests, leaving, arriving

    def finish(self, started: Any) -> list[Any]:
        """Wait for MPI, and copy what came to the GPU."""
        requests, _, arriving = started
        MPI.Request.Waitall(requests)
        device = self.device
        device.after(self.stream, device.mark(device.compute))  # rule 3 of executor.gpu.run
        with device.on(self.stream):
            came = [device.xp.empty(buffer.size, dtype=device.xp.uint8) for _, buffer in arriving]
        for (_, buffer), array in zip(arriving, came, strict=True):
            device.upload(buffer, array, self.stream)
            self._uploading.append(buffer)  # the copy still reads it
        return came
