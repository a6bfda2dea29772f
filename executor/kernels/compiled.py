"""Whether kernels are compiled here: numba may be switched off, or refuse to be imported, as beside a newer NumPy."""

import functools


@functools.cache
def why_not() -> str:
    """Why numba compiles nothing here; "" where it does."""
    try:
        from numba import config
    except ImportError as error:
        return f"numba is missing ({' '.join(str(error).split()) or 'no message'})"
    return "numba is off (NUMBA_DISABLE_JIT)" if getattr(config, "DISABLE_JIT", 0) else ""
