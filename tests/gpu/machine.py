"""The GPU that tests/gpu/all.sh measures; or one played on the host, to try its steps where there is none."""

import statistics
import time

import numpy as np

from executor.kernels import cuda_tiles


class Real:
    """CuPy's current GPU, timed by events."""

    played = False

    def __init__(self):
        from executor.gpu import engine, visible

        self.xp = visible.choose(0)
        self.engine = engine.current()
        self.name = visible.name()

    def device(self):
        from executor.gpu.device import CupyDevice

        return CupyDevice(self.xp)

    def host(self, x):
        return self.xp.asnumpy(x)

    def about(self):
        runtime = self.xp.cuda.runtime
        found = runtime.getDeviceProperties(self.xp.cuda.Device().id)
        return {
            "gpu": self.name,
            "capability": f"{found['major']}.{found['minor']}",
            "processors": found["multiProcessorCount"],
            "cache_bytes": found["l2CacheSize"],
            "memory_bytes": found["totalGlobalMem"],
            "driver": runtime.driverGetVersion(),
            "cupy": self.xp.__version__,
        }

    def seconds(self, work, rounds=5):
        """Median seconds of a piece of work, after two that warm up."""
        for _ in range(2):
            work()
        cuda, found = self.xp.cuda, []
        for _ in range(rounds):
            start, end = cuda.Event(), cuda.Event()
            start.record()
            work()
            end.record()
            end.synchronize()
            found.append(cuda.get_elapsed_time(start, end) / 1e3)
        return statistics.median(found)


class Played:
    """No GPU: kernels compiled as C++, products by NumPy; its seconds mean nothing."""

    played = True
    name = "none, played on the host"
    xp = np

    def __init__(self):
        from tests.gpu.emulated import Emulated

        self.engine = Emulated()
        cuda_tiles.engine = lambda: self.engine

    def device(self):
        from tests.gpu.fake import FakeDevice

        return FakeDevice(self.engine)

    def host(self, x):
        return np.asarray(x)

    def about(self):
        return {"gpu": self.name}

    def seconds(self, work, rounds=1):
        start = time.perf_counter()
        work()
        return time.perf_counter() - start


def machine(play):
    return Played() if play else Real()


def bfloat16():
    """The dtype, or None."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return np.dtype(ml_dtypes.bfloat16)


class Hosted:
    """A kernel of arrays on a GPU, for those who have NumPy's."""

    def __init__(self, on, kernel=cuda_tiles):
        self.on, self.kernel = on, kernel

    def attend(self, q, k, v, *rest):
        return self._back(self.kernel.attend(*map(self.on.xp.asarray, (q, k, v)), *rest))

    def attend_backward(self, q, k, v, do, lse, delta, *rest):
        arrays = map(self.on.xp.asarray, (q, k, v, do, lse, delta))
        return self._back(self.kernel.attend_backward(*arrays, *rest))

    def _back(self, results):
        return tuple(self.on.host(x) for x in results)
