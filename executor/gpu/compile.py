"""Compile the CUDA sources to machine code with NVRTC, which needs neither a GPU nor a driver."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

from executor.gpu.sources import KERNELS, OPTIONS, text

WHEELS = "nvidia-cuda-nvrtc-cu12 (or nvidia-cuda-nvrtc)"


class CompileError(ValueError):
    """A source that does not compile, with the compiler's own words."""


def library() -> Path | None:
    """Where NVRTC is: in the folder of NVIDIA's wheels, or of a toolkit."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    roots += [Path("/usr/local/cuda")]
    found = [p for root in roots for p in sorted(root.glob("**/libnvrtc.so.*")) if "alt" not in p.name]
    return found[0] if found else None


class Nvrtc:
    """The runtime compiler, through its C interface."""

    def __init__(self, path: Path) -> None:
        """Load the library.

        Raises:
            OSError: it cannot be loaded here.
        """
        self._nvrtc = ctypes.CDLL(str(path))
        self._nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p

    @property
    def version(self) -> str:
        """Of the compiler, as major.minor."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return f"{major.value}.{minor.value}"

    def cubin(self, name: str, architecture: str) -> bytes:
        """Compile one source, every kernel of it, to the machine code of one architecture.

        Raises:
            CompileError: what the compiler says.
        """
        program = ctypes.c_void_p()
        source, title = text(name).encode(), f"{name}.cu".encode()
        self._check(self._nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, title, 0, None, None))
        try:
            for kernel in KERNELS[name]:
                self._check(self._nvrtc.nvrtcAddNameExpression(program, kernel.encode()))
            options = [option.encode() for option in (*OPTIONS, f"--gpu-architecture={architecture}")]
            status = self._nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
            if status:
                raise CompileError(f"{name}.cu for {architecture}: {self._fetch(program, 'ProgramLog').decode()}")
            return self._fetch(program, "CUBIN")
        finally:
            self._nvrtc.nvrtcDestroyProgram(ctypes.byref(program))

    def _fetch(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._nvrtc, f"nvrtcGet{what}")(program, buffer))
        return buffer.raw

    def _check(self, status: int) -> None:
        if status:
            raise CompileError(f"NVRTC: {self._nvrtc.nvrtcGetErrorString(status).decode()}")
