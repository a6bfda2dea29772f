"""Streams, marks in them, and copies: what the executor asks of a GPU besides arithmetic.

Work started in one stream runs in order. Between streams there are only marks: a stream can wait for a mark in another
one, and the host for all that a stream holds. The rules that keep memory safe with them are in `executor.gpu.run`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from executor.gpu import engine
from executor.gpu.engine import Engine

Stream = Any
Mark = Any
Bytes = NDArray[np.uint8]

TO_GPU, TO_HOST = 1, 2  # cudaMemcpyKind


class Device(Protocol):
    """A GPU, or what stands in for one.

    Attributes:
        xp: the array library. engine: what its kernels run on. compute: the stream of compute ops.
    """

    xp: Any
    engine: Engine
    compute: Stream

    def stream(self) -> Stream:
        """Make another stream."""

    def on(self, stream: Stream) -> AbstractContextManager[Any]:
        """Let what is started inside go into a stream, and arrays that are made inside come from its memory."""

    def mark(self, stream: Stream) -> Mark:
        """Mark what a stream holds so far."""

    def after(self, stream: Stream, mark: Mark) -> None:
        """Let all that a stream is given from now on wait for a mark."""

    def finish(self, stream: Stream) -> None:
        """Wait, on the host, for all that a stream holds."""

    def seconds(self, start: Mark, end: Mark) -> float:
        """How long after one mark the other was reached; both have been."""

    def pinned(self, nbytes: int) -> Bytes:
        """Host memory that copies may still be reading or writing when they were started."""

    def download(self, source: Any, target: Bytes, stream: Stream) -> None:
        """Start a copy of a contiguous array's bytes to the host."""

    def upload(self, source: Bytes, target: Any, stream: Stream) -> None:
        """Start a copy of bytes to a contiguous array."""

    def host(self, array: Any) -> NDArray[Any]:
        """An array as NumPy's, when all that writes it is done."""


class CupyDevice:
    """CuPy's current GPU."""

    def __init__(self, cupy: Any) -> None:
        """Make the compute stream."""
        self.xp, self._cuda = cupy, cupy.cuda
        self.engine: Engine = engine.current()
        self.compute = self.stream()

    def stream(self) -> Stream:
        """Make a stream that does not wait for the default one."""
        return self._cuda.Stream(non_blocking=True)

    def on(self, stream: Stream) -> AbstractContextManager[Any]:
        """CuPy's streams are contexts, and its memory pool keeps each stream's memory apart."""
        return stream  # type: ignore[no-any-return]

    def mark(self, stream: Stream) -> Mark:
        """Record an event that keeps its time."""
        event = self._cuda.Event()
        event.record(stream)
        return event

    def after(self, stream: Stream, mark: Mark) -> None:
        """Wait for an event."""
        stream.wait_event(mark)

    def finish(self, stream: Stream) -> None:
        """Synchronise."""
        stream.synchronize()

    def seconds(self, start: Mark, end: Mark) -> float:
        """Events count milliseconds."""
        return float(self._cuda.get_elapsed_time(start, end)) / 1e3

    def pinned(self, nbytes: int) -> Bytes:
        """Page-locked memory, from CuPy's pool."""
        memory = self._cuda.alloc_pinned_memory(nbytes)
        return np.frombuffer(memory, np.uint8, nbytes)

    def download(self, source: Any, target: Bytes, stream: Stream) -> None:
        """Copy without waiting."""
        self._cuda.runtime.memcpyAsync(target.ctypes.data, source.data.ptr, source.nbytes, TO_HOST, stream.ptr)

    def upload(self, source: Bytes, target: Any, stream: Stream) -> None:
        """Copy without waiting."""
        self._cuda.runtime.memcpyAsync(target.data.ptr, source.ctypes.data, source.nbytes, TO_GPU, stream.ptr)

    def host(self, array: Any) -> NDArray[Any]:
        """Copy, and wait for it."""
        copied: NDArray[Any] = self.xp.asnumpy(array)
        return copied
