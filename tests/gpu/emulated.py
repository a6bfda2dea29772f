"""A GPU played on the host: kernels compiled from the same text as C++, cuBLAS's call done by NumPy on raw memory."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from executor.gpu.sources import FILES, FOLDER, KERNELS, home

COMPILER = shutil.which("g++") or shutil.which("clang++")
MISSING = "a host compiler is missing (g++), to play a GPU"
SHIM = Path(__file__).with_name("shim.h")
DTYPES = {0: np.float32, 1: np.float64, 2: np.float16}  # cudaDataType
BFLOAT16 = 14


def host_text(name, mutants=(), kernels=None):
    """A source as C++: the shim, the source once for each mutant and once without, and a function for each kernel.

    A mutant is pairs of old and new text.
    """
    prelude, *files = [SHIM.read_text(), *((FOLDER / file).read_text() for file in FILES[name])]
    shared, own = "\n".join([prelude, *files[:-1]]), files[-1]
    parts = [shared]
    for number, edits in enumerate(((), *mutants)):
        source = own
        for old, new in edits:
            assert source.count(old) == 1, f"the text to change is there {source.count(old)} times: {old}"
            source = source.replace(old, new)
        parts.append(f"namespace v{number} {{\n{source}\n}}")
        parts += [
            f'extern "C" void v{number}_{i}(unsigned x, unsigned y, unsigned threads, void** given)'
            f" {{ launch(&v{number}::{kernel}, x, y, threads, given); }}"
            for i, kernel in enumerate(KERNELS[name])
            if kernels is None or kernel in kernels
        ]
    return "\n".join(parts)


@cache
def built(name, mutants=(), kernels=None):
    """Compile a source; the same text is compiled once a machine."""
    source = host_text(name, mutants, kernels)
    folder = Path(tempfile.gettempdir()) / f"ringloom-emulated-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    digest = hashlib.sha256(source.encode()).hexdigest()[:20]
    library = folder / f"{name}-{digest}.so"
    if not library.exists():
        written = folder / f"{name}-{digest}-{os.getpid()}.cpp"
        written.write_text(source)
        made = written.with_suffix(".so")
        words = [COMPILER, "-std=c++20", "-O1", "-fPIC", "-shared", "-w", "-o", made, written]
        subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)
        made.replace(library)
        written.unlink()
    return ctypes.CDLL(str(library))


class Emulated:
    """An engine (executor.gpu.engine) whose memory is NumPy's."""

    xp = np

    def __init__(self, cache_bytes=3 * 16 * 16 * 8, library=None, mutant=0, threads=None):
        """Take a small cache, so that small cases have many tiles; `threads` overrides the size of blocks.

        Args:
            library, mutant: of attention.cu with mutants, and which of them; 0 is none.
        """
        self.cache_bytes, self.threads, self.mutant = cache_bytes, threads, mutant
        self.libraries = {"attention": library} if library else {name: built(name) for name in FILES}
        self.launched, self.products = [], 0

    def pointer(self, array):
        return array.ctypes.data

    def launch(self, kernel, grid, block, arguments):
        name = home(kernel)
        self.launched.append(kernel)
        boxes = [np.array(x) for x in arguments]
        given = (ctypes.c_void_p * len(boxes))(*[box.ctypes.data for box in boxes])
        call = getattr(self.libraries[name], f"v{self.mutant}_{KERNELS[name].index(kernel)}")
        call(*map(ctypes.c_uint, (*grid, self.threads or block)), given)

    def blas(self, op_a, op_b, m, n, k, alpha, a, a_type, a_ld, a_step, b, b_type, b_ld, b_step,
             beta, c, c_type, c_ld, c_step, count, compute, algorithm):  # fmt: skip
        """cublasGemmStridedBatchedEx by its documentation: columns first, leading dimensions checked."""
        self.products += 1
        assert compute == {0: 68, 1: 70}[c_type]
        assert a_ld >= max(1, k if op_a else m)
        assert b_ld >= max(1, n if op_b else k)
        assert c_ld >= max(1, m)
        one = DTYPES[c_type]
        alpha, beta = (_columns(x, c_type, 1, 1, 1)[0, 0] for x in (alpha, beta))
        for i in range(count):
            left = _matrix(a, a_type, a_step * i, op_a, m, k, a_ld).astype(one)
            right = _matrix(b, b_type, b_step * i, op_b, k, n, b_ld).astype(one)
            out = _matrix(c, c_type, c_step * i, 0, m, n, c_ld)
            product = alpha * (left @ right)
            out[...] = product + beta * out if beta else product


def _matrix(pointer, kind, offset, transposed, rows, columns, ld):
    start = pointer + offset * (2 if kind == BFLOAT16 else np.dtype(DTYPES[kind]).itemsize)
    if transposed:
        return _columns(start, kind, columns, rows, ld).T
    return _columns(start, kind, rows, columns, ld)


def _columns(pointer, kind, rows, columns, ld):
    """A view of memory as a matrix, one column after the other, `ld` numbers apart."""
    dtype = np.dtype(np.uint16 if kind == BFLOAT16 else DTYPES[kind])
    count = (columns - 1) * ld + rows if rows and columns else 0
    flat = np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(pointer), dtype)
    if kind == BFLOAT16:
        flat = (flat.astype(np.uint32) << 16).view(np.float32)
    size = flat.dtype.itemsize
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (size, size * ld))
