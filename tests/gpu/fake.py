"""A GPU's streams played on the host: copies between host and device happen when something waits for them.

Device memory is NumPy's, poisoned when it is taken; so is pinned memory. What nobody waited for leaves poison behind,
so that a wait too few makes a wrong result. Arithmetic happens at once, but what a compute op wrote is poisoned until
something waits for the compute stream (`deferred`).
"""

import contextlib

import numpy as np

from tests.gpu.emulated import Emulated

POISON = 0xFB


class Poisoned:
    """NumPy, but memory that is taken is full of poison."""

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def empty(shape, dtype=float):
        made = np.empty(shape, dtype)
        made.reshape(-1).view(np.uint8)[...] = POISON
        return made


class Stream:
    """Copies that have not happened yet."""

    def __init__(self):
        self.waiting, self.at = [], 0

    @property
    def ptr(self):
        return id(self)

    def drain(self, until=None):
        while self.waiting and (until is None or self.at < until):
            first = self.waiting.pop(0)
            self.at += 1
            first()


class Mark:
    """A place in a stream: all that was given to it before."""

    def __init__(self, stream, number):
        self.stream, self.place, self.number = stream, stream.at + len(stream.waiting), number


def deferred(bind, device):
    """Put what compute ops write into the stream: nobody sees it who does not wait."""

    def bound(*args):
        meaning = bind(*args)

        def run(*arrays):
            device.compute.drain()
            written = meaning(*arrays)
            for x in written:
                if not any(np.shares_memory(x, y) for y in arrays):
                    keep(device.compute, x)
            return written

        return run

    return bound


def keep(stream, x):
    right = x.copy()
    x[...] = np.nan
    stream.waiting.append(lambda: np.copyto(x, right))


class FakeDevice:
    """See executor.gpu.device.Device. `forget` names what is left out, to see it noticed."""

    def __init__(self, engine=None, forget=()):
        self.xp, self.forget, self.marks = Poisoned(), forget, 0
        self.engine = engine or Emulated()
        self.compute = Stream()
        self.log = []

    def stream(self):
        return Stream()

    @contextlib.contextmanager
    def on(self, stream):
        if stream is not self.compute:
            stream.drain()  # arithmetic comes after the copies before it
        yield

    def mark(self, stream):
        self.marks += 1
        return Mark(stream, self.marks)

    def after(self, stream, mark):
        name = "compute after communication" if stream is self.compute else "communication after compute"
        self.log.append(name)
        if name in self.forget:
            return
        if stream is self.compute:
            mark.stream.drain(mark.place)  # arithmetic does not wait
        else:
            stream.waiting.append(lambda: mark.stream.drain(mark.place))

    def finish(self, stream):
        self.log.append("finish")
        if "finish" in self.forget and stream is not self.compute:
            return
        stream.drain()

    def seconds(self, start, end):
        return (end.number - start.number) * 1e-6

    def pinned(self, nbytes):
        return np.full(nbytes, POISON, np.uint8)

    def download(self, source, target, stream):
        source = source.reshape(-1).view(np.uint8)
        stream.waiting.append(lambda: np.copyto(target, source))

    def upload(self, source, target, stream):
        target = target.reshape(-1).view(np.uint8)
        stream.waiting.append(lambda: np.copyto(target, source))

    def host(self, array):
        return np.asarray(array)
