"""One core a rank: more ranks than cores are refused, as each would time how often another had its turn."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from executor.errors import BadInput

if TYPE_CHECKING:
    from mpi4py import MPI


def settle(comm: MPI.Comm, pin: bool, oversubscribe: bool) -> str:
    """Bind each rank to a core of its own where the system allows it; return how they are bound, in words.

    Ranks that a launcher has bound differently stay as they are. All ranks call it together.

    Raises:
        BadInput: on every rank, that a host has more ranks than cores.
    """
    from mpi4py import MPI

    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    local, size = here.Get_rank(), here.Get_size()
    mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    bound: list[list[int]] = here.allgather(mine)
    here.Free()
    cores = sorted({core for each in bound for core in each})
    hosts: list[tuple[str, int, int]] = comm.allgather((socket.gethostname(), size, len(cores)))
    crowded = [one for one in hosts if one[1] > one[2]]
    if crowded and not oversubscribe:
        host, ranks, have = crowded[0]
        raise BadInput(
            f"{ranks} ranks on {have} core{'s' * (have > 1)} of {host}: they would time each other's turns; "
            "use fewer, or say --oversubscribe"
        )
    alike = all(each == mine for each in bound)
    mine_alone = pin and alike and size <= len(mine) and hasattr(os, "sched_setaffinity")
    if mine_alone:
        try:
            os.sched_setaffinity(0, {mine[local]})
        except OSError:
            mine_alone = False
    if not all(comm.allgather(mine_alone)):
        return "as launched" if pin else "not pinned"
    return "one core a rank"
