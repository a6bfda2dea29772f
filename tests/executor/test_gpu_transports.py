"""When a transport waits: MPI is given a buffer only after the host has waited for the stream that wrote it."""

import numpy as np
import pytest

from executor.gpu.transports import cuda_aware, nccl, staged
from tests.gpu.emulated import Emulated
from tests.gpu.fake import FakeDevice

MPI = pytest.importorskip("mpi4py.MPI")


class Spy:
    """A communicator that notes what it is asked for."""

    def __init__(self, log):
        self.log = log

    def Irecv(self, buffer, member, tag):  # noqa: N802
        self.log.append("receive")
        return MPI.REQUEST_NULL

    def Isend(self, buffer, member, tag):  # noqa: N802
        self.log.append("send")
        return MPI.REQUEST_NULL


@pytest.fixture
def device():
    return FakeDevice(Emulated(library=object()))


def started(transport, device):
    device.log.clear()
    return transport.start([(1, np.arange(8, dtype=np.uint8))], [(1, 8)], 0)


def test_staged_sends_when_the_copy_is_there_and_receives_before(device):
    started(staged.make(Spy(device.log), device), device)
    assert device.log == ["receive", "finish", "send"]


def test_staged_keeps_what_a_copy_still_reads_until_the_stream_is_done(device):
    transport = staged.make(Spy(device.log), device)
    first = started(transport, device)
    came = transport.finish(first)
    assert transport._uploading
    assert (came[0] == 0xFB).all()  # the copy has not happened yet: the stream has it
    device.finish(transport.stream)
    assert transport.start([], [], 0) == ([], [], [])
    assert not transport._uploading


def test_a_cuda_aware_mpi_sees_nothing_before_the_host_has_waited(device):
    started(cuda_aware.make(Spy(device.log), device), device)
    assert device.log == ["communication after compute", "finish", "receive", "send"]


def test_this_mpi_is_asked_whether_it_takes_gpu_memory():
    assert cuda_aware.support() in (None, False, True)
    if not cuda_aware.support():
        assert "GPU memory: use a CUDA-aware build, or --transport staged" in cuda_aware.unable(MPI.COMM_SELF)


def test_without_nccl_one_line_says_what_to_install(monkeypatch):
    def missing():
        raise ImportError("no library")

    monkeypatch.setattr(nccl, "library", missing)
    assert nccl.unable(MPI.COMM_SELF).startswith("NCCL is missing: pip install nvidia-nccl-cu12 or nvidia-nccl-cu13")
