"""Is there a GPU, and which one is a rank's? Every reason why not is one line that says what to do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from executor.errors import BadInput

INSTALL = "pip install 'ringloom[cuda12]' or 'ringloom[cuda13]', as the driver has it"


def require() -> Any:
    """Return CuPy, sure that it sees a GPU.

    Raises:
        BadInput: CuPy is missing or broken, or sees none.
    """
    try:
        import cupy
    except Exception as error:  # a CuPy that does not fit its libraries fails in ways of its own
        raise BadInput(f"--device gpu needs CuPy ({_first_line(error)}): {INSTALL}") from None
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except Exception as error:  # CUDARuntimeError, which only CuPy has
        raise BadInput(f"--device gpu: no GPU is visible to CuPy {cupy.__version__} ({_first_line(error)})") from None
    if not count:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = f"CUDA_VISIBLE_DEVICES={hidden!r} hides all" if hidden is not None else "the driver reports none"
        raise BadInput(f"--device gpu: no GPU is visible to CuPy {cupy.__version__} ({why})")
    return cupy


def choose(local_rank: int) -> Any:
    """Make one GPU the current one, the local rank's in turn; several ranks may share one. Returns CuPy.

    Raises:
        BadInput: there is none.
    """
    cupy = require()
    cupy.cuda.Device(local_rank % cupy.cuda.runtime.getDeviceCount()).use()
    return cupy


def refuse_tf32(environ: Mapping[str, str] = os.environ) -> None:
    """Refuse to prove anything with CuPy's products in TF32.

    Raises:
        BadInput: CUPY_TF32 asks for it.
    """
    if environ.get("CUPY_TF32", "0") not in ("", "0"):
        said = environ["CUPY_TF32"]
        raise BadInput(f"CUPY_TF32={said} makes products of float32 carry 10 bits, which proves nothing: unset it")


def name() -> str:
    """The current GPU, by the driver's name for it."""
    cupy = require()
    found = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"]
    return str(found.decode() if isinstance(found, bytes) else found)


def place() -> str:
    """The PCI address of the current GPU, which ranks on one host compare."""
    cupy = require()
    return str(cupy.cuda.runtime.deviceGetPCIBusId(cupy.cuda.Device().id))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
