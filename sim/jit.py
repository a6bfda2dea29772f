"""How the engine's functions are compiled, and kept on disk.

The same source runs uncompiled under `NUMBA_DISABLE_JIT=1`, with the same bits, and is then its own
readable reference.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

COMPILED_FILES = (
    *("jit.py", "state.py", "codes.py", "roads.py", "routes.py", "maxmin.py"),
    *("step.py", "refine.py", "apart.py", "maxplus.py", "adaptive.py"),
)

_njit: Any = njit  # its type stubs lack `_nrt` and others

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile `function`, which Python calls and which may make arrays."""
    return _kept(function, {})


def compiled_step(function: Function) -> Function:
    """Compile `function`, which Python calls and which makes no array: it counts no references."""
    return _kept(function, {"_nrt": False})


def inlined(function: Function) -> Function:
    """Compile `function` into its callers. It makes no array, and Python does not call it.

    A call that is not inlined copies the whole table of arrays: ten times slower.
    """
    options = {"forceinline": True, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    helper: Function = _njit(**options)(function)
    return helper


def _kept(function: Function, options: dict[str, bool]) -> Function:
    """Compile with a disk cache that is stamped with all compiled files, not only the function's own.

    Otherwise a change in `maxmin.py` would leave the old solver inside a cached `step`.
    """
    try:
        dispatcher: Any = _njit(cache=True, **options)(function)
    except RuntimeError:  # neither this folder nor the home can be written: every run compiles
        dispatcher = _njit(**options)(function)
    cache_file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = _DIGEST
    entry: Function = dispatcher
    return entry


def _digest() -> str:
    """Return a digest of every file that holds compiled code."""
    folder = Path(__file__).parent
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in COMPILED_FILES)).hexdigest()


_DIGEST = _digest()
