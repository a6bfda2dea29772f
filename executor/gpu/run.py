"""One rank a process, its arrays on a GPU: the schedule's streams are the GPU's.

Ops are started in the executor's fixed order and run when their stream comes to them. What is safe rests on four rules:

1. A communication op's stream waits for the mark of each op that wrote its inputs.
2. The compute stream waits for the end of a communication op where the order waits for it.
3. Memory given back by Python is taken again, in order, within one stream; before a communication stream writes to
   memory that is new to it, it waits for all that the compute stream holds, which may still read what lay there.
4. MPI sees a buffer only when the host has waited for the stream that wrote it.

Times are those of the GPU: each op's start and end are marks in its stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from mpi4py import MPI

from algorithms.ir import Op, Schedule
from algorithms.ops.load import held_heads
from algorithms.ways import COLLECTIVES
from algorithms.ways.transfers import rounds
from executor import mpi
from executor.arrays import Arrays, Positions, loaded
from executor.gpu import transports
from executor.gpu.carry import Stand, carried, permute
from executor.gpu.device import Device, Mark, Stream
from executor.gpu.glue import fused
from executor.gpu.transports import Transport
from executor.interpret import bind, kernel_called
from executor.kernels import Kernel
from executor.lower import Communication, Program, lower

NATIVE = dict.fromkeys(COLLECTIVES, "direct")  # as one group of sends, which is how NCCL exchanges, too


class Runner:
    """Runs schedules with arrays on one GPU; to be called as `executor.mpi.run` is."""

    def __init__(self, device: Device, transport: str | Callable[[MPI.Comm, Device], Transport]) -> None:
        """Open transports when a stream first needs one, and keep them."""
        self.device, self.fused = device, fused(device.engine)
        self._make = transport if callable(transport) else lambda comm, on: transports.make(transport, comm, on)
        self._open: dict[int, Transport] = {}

    def __call__(
        self,
        schedule: Schedule,
        arrays: Arrays,
        comm: MPI.Comm,
        kernel: str | Kernel,
        ways: Mapping[str, str] | None,
        streams: mpi.Streams,
        together: bool = True,
    ) -> mpi.Run:
        """Run this rank of a schedule; results come back as NumPy's arrays."""
        if comm.Get_size() != schedule.mesh.size:
            raise ValueError(f"mesh {schedule.mesh} needs {schedule.mesh.size} ranks: MPI has {comm.Get_size()}")
        sent, device = [0] * len(schedule.ops), self.device
        with device.on(device.compute):
            work = Work(self, schedule, arrays, streams, kernel_called(kernel), ways, sent)
            program = work.program()
            device.finish(device.compute)
            if together:
                comm.Barrier()
            begin = device.mark(device.compute)
            for call in program.calls:
                call()
            for stream in [device.compute, *(transport.stream for transport in self._open.values())]:
                device.finish(stream)
            results = {name: device.host(program.slots[v.id]) for name, v in schedule.results.items()}
            start, end = work.times(begin)
        return mpi.Run(results, np.array(sent, dtype=np.int64), start, end)

    def transport(self, comm: MPI.Comm) -> Transport:
        """The transport of a stream, by its communicator."""
        if comm.handle not in self._open:
            self._open[comm.handle] = self._make(comm, self.device)
        return self._open[comm.handle]


class Work:
    """One rank's part in one run: what each op does, and when it was started and done."""

    def __init__(
        self,
        runner: Runner,
        schedule: Schedule,
        arrays: Arrays,
        streams: mpi.Streams,
        kernel: Kernel,
        ways: Mapping[str, str] | None,
        sent: list[int],
    ) -> None:
        """Nothing is started yet."""
        self.runner, self.schedule, self.arrays, self.streams = runner, schedule, arrays, streams
        self.kernel, self.ways, self.sent = kernel, NATIVE if ways is None else ways, sent
        self.rank, self.device = streams.comm.Get_rank(), runner.device
        self.positions, self.peers = Positions(schedule, self.rank), mpi.Peers(schedule.mesh, self.rank)
        self.source = {v.id: op.id for op in schedule.ops for v in op.outputs}
        self.started: dict[int, Mark] = {}
        self.done: dict[int, Mark] = {}

    def program(self) -> Program:
        """Lower the schedule."""
        return lower(self.schedule, self._compute, self._communicate)

    def _compute(self, op: Op) -> Callable[..., Any]:
        xp, problem, mesh = self.device.xp, self.schedule.problem, self.schedule.mesh
        if op.kind == "load":
            shard = xp.asarray(loaded(op, self.arrays, self.schedule, self.rank))
            return self._marked(op, lambda: (shard,))
        heads = lambda v: held_heads(v, problem, mesh, self.rank, problem.heads)  # noqa: E731
        return self._marked(op, bind(op, self.positions, self.kernel, xp, heads, self.runner.fused))

    def _marked(self, op: Op, meaning: Callable[..., Any]) -> Callable[..., Any]:
        device, stream, started, done, number = self.device, self.device.compute, self.started, self.done, op.id

        def call(*arrays: Any) -> Any:
            started[number] = device.mark(stream)
            written = meaning(*arrays)
            done[number] = device.mark(stream)
            return written

        return call

    def _communicate(self, op: Op) -> Communication:
        comm, group, member, ranks = self.streams.stand(self.schedule.mesh, op.over, op.lane)
        transport, merge = self.runner.transport(comm), self.runner.fused["merge"]
        stand = Stand(self.device, transport, self.schedule.mesh, group, member, self.sent, merge)
        if op.kind == "permute":
            source, destination = map(ranks.index, self.peers.of(op))
            plain = permute(op, stand, source, destination, self.peers.shapes(op))
        else:
            plain = carried(op, stand, rounds(op, self.schedule.mesh, self.ways))
        return self._ordered(op, plain, transport.stream)

    def _ordered(self, op: Op, plain: Communication, stream: Stream) -> Communication:
        """Rules 1 and 2."""
        device, sources = self.device, sorted({self.source[v.id] for v in op.inputs})

        def post(*arrays: Any) -> Any:
            for source in sources:
                device.after(stream, self.done[source])
            self.started[op.id] = device.mark(stream)
            return plain.post(*arrays)

        def wait(posted: Any) -> Any:
            brought = plain.wait(posted)
            self.done[op.id] = device.mark(stream)
            device.after(device.compute, self.done[op.id])
            return brought

        return Communication(post, wait)

    def times(self, begin: Mark) -> tuple[mpi.Floats, mpi.Floats]:
        """When each op started and ended, in seconds from a mark."""
        seconds, ops = self.device.seconds, range(len(self.schedule.ops))
        start, end = ([seconds(begin, marks[i]) for i in ops] for marks in (self.started, self.done))
        return np.array(start), np.array(end)
