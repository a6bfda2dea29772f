"""NCCL played over MPI: what a group sends moves when the stream comes to it, not when it is put there."""

import numpy as np
from mpi4py import MPI


class FakeNccl:
    """The library's two calls, as executor.gpu.transports.nccl.Nccl makes them, on addresses of memory."""

    def __init__(self, comm, device):
        from executor.gpu.transports.nccl import Nccl

        self.calls = Library(comm, device)
        self.inner = Nccl(comm, device, self.calls)
        self.calls.stream = self.stream = self.inner.stream
        self.start, self.finish = self.inner.start, self.inner.finish


class Library:
    NCCL_UINT8 = 1

    def __init__(self, comm, device):
        self.comm, self.device, self.stream, self.group = comm, device, None, None

    def get_unique_id(self):
        return (7,) * 128

    def NcclCommunicator(self, size, drawn, rank):  # noqa: N802
        assert (size, rank) == (self.comm.size, self.comm.rank)
        assert drawn == self.get_unique_id()
        return self

    def groupStart(self):  # noqa: N802
        assert self.group is None
        self.group = []

    def send(self, pointer, count, kind, peer, stream):
        self._put(self.comm.Isend, pointer, count, kind, peer, stream)

    def recv(self, pointer, count, kind, peer, stream):
        self._put(self.comm.Irecv, pointer, count, kind, peer, stream)

    def _put(self, call, pointer, count, kind, peer, stream):
        assert kind == self.NCCL_UINT8
        assert stream == self.stream.ptr
        self.group.append((call, memory(pointer, count), peer))

    def groupEnd(self):  # noqa: N802
        group, self.group = self.group, None
        # Posted now, or two ranks that drain their streams at different times would wait for each other for ever; what
        # arrives lands aside, and in its place only when the stream comes to it.
        aside = [(np.empty_like(m) if call == self.comm.Irecv else m.copy()) for call, m, _ in group]
        requests = [call([x, MPI.BYTE], peer) for (call, _, peer), x in zip(group, aside, strict=True)]

        def move():
            MPI.Request.Waitall(requests)
            for (call, m, _), x in zip(group, aside, strict=True):
                if call == self.comm.Irecv:
                    m[...] = x

        self.stream.waiting.append(move)


def memory(pointer, count):
    import ctypes

    return np.frombuffer((ctypes.c_char * count).from_address(pointer), np.uint8)
