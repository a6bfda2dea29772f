"""The options --device, --kernel and --transport: what goes with what, and the GPU of each rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from executor.errors import BadInput
from executor.gpu import visible
from executor.kernels import unknown

if TYPE_CHECKING:
    from mpi4py import MPI

    from executor.gpu.run import Runner

KERNELS = {"cpu": ("numba", "numpy", "dense", "torch"), "gpu": ("cuda", "torch")}  # the first unless said


@dataclass(frozen=True)
class Choice:
    """What arrays are on, by what attention is computed, and how GPUs exchange; the GPU of this rank, by name."""

    device: str
    kernel: str
    transport: str = ""
    gpu: str = ""

    def __str__(self) -> str:
        """As a line about the run has it."""
        on = f" on {self.gpu}" if self.gpu else ""
        return f"kernel {self.kernel}{on}" + f", transport {self.transport}" * bool(self.transport)


def kernel_for(device: str, kernel: str) -> str:
    """The kernel that was asked for, or the device's own.

    Raises:
        BadInput: no such device, or a kernel whose arrays are elsewhere.
    """
    if device not in KERNELS:
        raise BadInput(unknown("device", device, dict.fromkeys(KERNELS)))
    serving = KERNELS[device]
    elsewhere = next((on for on, names in KERNELS.items() if kernel in names and kernel not in serving), "")
    if elsewhere:
        raise BadInput(f"--kernel {kernel} is for --device {elsewhere}; --device {device} takes {', '.join(serving)}")
    return kernel or serving[0]


def chosen(device: str, kernel: str, transport: str | None, comm: MPI.Comm | None) -> Choice:
    """Take the options together; on a GPU, make the one of this rank the current one. All ranks together.

    Raises:
        BadInput: what does not go together, or is not there.
    """
    kernel = kernel_for(device, kernel)
    if device == "cpu":
        if transport is not None:
            raise BadInput(f"--transport {transport} is between GPUs: it needs --device gpu")
        return Choice(device, kernel)
    visible.refuse_tf32()
    visible.choose(_local_rank(comm))
    if comm is None:
        if transport is not None:
            raise BadInput(f"--transport {transport}: with --local nothing is sent")
        return Choice(device, kernel, "", visible.name())
    from executor.gpu import transports

    return Choice(device, kernel, transports.choose(transport or "auto", comm), visible.name())


def runner(choice: Choice) -> Runner | None:
    """What runs schedules on the GPU of this rank; None where arrays are on the CPU."""
    if choice.device == "cpu":
        return None
    from executor.gpu.device import CupyDevice
    from executor.gpu.run import Runner

    return Runner(CupyDevice(visible.require()), choice.transport)


def library(choice: Choice) -> Any:
    """The array library of one process that runs all ranks."""
    if choice.device == "cpu":
        import numpy

        return numpy
    return visible.require()


def _local_rank(comm: MPI.Comm | None) -> int:
    if comm is None:
        return 0
    from mpi4py import MPI

    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    rank = int(here.Get_rank())
    here.Free()
    return rank
