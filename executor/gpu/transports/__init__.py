"""How bytes get from one GPU's memory into another's: one file a transport, one interface."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from executor.errors import BadInput
from executor.gpu.device import Device, Stream
from executor.kernels import unknown

if TYPE_CHECKING:
    from mpi4py import MPI

MODULES = {"staged": "staged", "cuda-aware": "cuda_aware", "nccl": "nccl"}
AUTO = ("nccl", "cuda-aware", "staged")  # the first that can

Sends = Sequence[tuple[int, Any]]  # member, a contiguous array of bytes
Receives = Sequence[tuple[int, int]]  # member, bytes


class Transport(Protocol):
    """One rank's end of one communication stream.

    Attributes:
        stream: what it starts on the GPU goes there, in order.
    """

    stream: Stream

    def start(self, sends: Sends, receives: Receives, tag: int) -> Any:
        """Start to send arrays, ready where the stream stands now, and to receive; all members do it in one order."""

    def finish(self, started: Any) -> list[Any]:
        """Return what came, as arrays of bytes in the order of the receives, ready where the stream stands then."""


def make(name: str, comm: MPI.Comm, device: Device) -> Transport:
    """Open one end on each member of a communicator, together."""
    made: Transport = _module(name).make(comm, device)
    return made


def choose(name: str, comm: MPI.Comm) -> str:
    """Return the transport called `name`; of "auto", the first that can on all ranks. All ranks together.

    Raises:
        BadInput: there is no such transport, or it says why it cannot.
    """
    if name != "auto" and name not in MODULES:
        raise BadInput(unknown("transport", name, {"auto": "", **MODULES}))
    for candidate in AUTO if name == "auto" else (name,):
        reasons = comm.allgather(_module(candidate).unable(comm))
        reason = next((text for text in reasons if text), "")
        if not reason:
            return candidate
    raise BadInput(f"--transport {name}: {reason}")


def _module(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{MODULES[name]}")
