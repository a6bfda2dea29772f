"""What kernels need of a GPU: memory by CuPy, launches of our kernels, and GEMMs by cuBLAS."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np

from executor.gpu.sources import KERNELS, OPTIONS, home, text

Argument = Any  # a NumPy scalar of the parameter's own type; a pointer is np.uint64


class Engine(Protocol):
    """A GPU, or what stands in for one.

    Attributes:
        xp: the array library whose arrays lie there. cache_bytes: of the last cache before its memory.
    """

    xp: Any
    cache_bytes: int

    def pointer(self, array: Any) -> int:
        """Where an array begins."""

    def launch(self, kernel: str, grid: tuple[int, int], block: int, arguments: Sequence[Argument]) -> None:
        """Start a kernel after what was started before it."""

    def blas(self, *arguments: int) -> None:
        """Start cublasGemmStridedBatchedEx, with all its arguments but the handle."""


class Cupy:
    """The current GPU of this process; what is started goes into CuPy's current stream."""

    def __init__(self) -> None:
        """Find the GPU's cache and the cuBLAS of this CuPy; kernels are compiled when first launched."""
        import cupy

        self.xp, self._cublas = cupy, cupy.cuda.cublas
        self._handle = cupy.cuda.get_cublas_handle()
        self.cache_bytes = int(cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["l2CacheSize"])
        self._modules: dict[str, Any] = {}
        self._kernels: dict[str, Any] = {}

    def pointer(self, array: Any) -> int:
        """Where an array begins."""
        return int(array.data.ptr)

    def launch(self, kernel: str, grid: tuple[int, int], block: int, arguments: Sequence[Argument]) -> None:
        """Start a kernel."""
        if kernel not in self._kernels:
            self._kernels[kernel] = self._module(home(kernel)).get_function(kernel)
        self._kernels[kernel](grid, (block,), tuple(arguments))

    def _module(self, name: str) -> Any:
        if name not in self._modules:
            self._modules[name] = self.xp.RawModule(code=text(name), options=OPTIONS, name_expressions=KERNELS[name])
        return self._modules[name]

    def blas(self, *arguments: int) -> None:
        """Start a batch of GEMMs; CuPy gives them its current stream."""
        self._cublas.gemmStridedBatchedEx(self._handle, *arguments)


@cache
def of_device(number: int) -> Cupy:
    """The engine of one GPU of this process, which is the current one."""
    return Cupy()


def current() -> Engine:
    """The engine of CuPy's current GPU.

    Raises:
        BadInput: there is none.
    """
    from executor.gpu.visible import require

    return of_device(require().cuda.Device().id)


def address(engine: Engine, array: Any) -> Argument:
    """A pointer to an array as an argument of a kernel."""
    return np.uint64(engine.pointer(array))


NOWHERE = np.uint64(0)
