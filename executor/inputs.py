"""Inputs from a file, and the problem that they pose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from executor.arrays import Array
from executor.cases import Asked
from executor.errors import BadInput
from executor.limits import check_memory

NAMES = ("q", "k", "v", "do", "sinks")


def read_inputs(path: str, asked: Asked, dp: int = 1) -> tuple[dict[str, Any], Asked]:
    """Read q, k, v, do (N, batch * heads, D) and sinks (heads,) from a .npz file, and ask for the problem they pose.

    Without do, nothing is asked of the programs that train; with sinks, the problem has them.

    Args:
        dp: ranks that split the batch: how many sequences there are where nobody says.
    Raises:
        BadInput: no such file, an array missing or of no shape that makes a problem; sizes or types are said as well.
    """
    arrays = _arrays(path)
    for name in ("q", "k", "v"):
        if name not in arrays:
            raise BadInput(f"inputs {path}: no array {name}: expected q, k, v, and do to train")
        shape = arrays[name].shape
        if len(shape) != 3 or 0 in shape:
            raise BadInput(f"inputs {path}: {name} must be (tokens, batch * heads, width), got shape {shape}")
    if asked.shape_said or asked.length_said:
        raise BadInput(f"inputs {path} say the sizes: leave out --seq, --heads and the like")
    if asked.dtype not in ("", arrays["q"].dtype.name):
        raise BadInput(f"inputs {path} are {arrays['q'].dtype.name}: leave out --dtype {asked.dtype}")
    return arrays, _posed(path, arrays, asked, asked.batch or dp)


def _arrays(path: str) -> dict[str, Array]:
    """What the file has of q, k, v and do, in the byte order of this machine; nothing in it is run."""
    if not Path(path).is_file():
        what = "it is no file" if Path(path).exists() and path else "no such file"
        raise BadInput(f"inputs {path} cannot be read as .npz: {what}")
    try:
        with open(path, "rb") as opened:
            file = np.load(opened, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("it holds one array without a name")
            names = [name for name in NAMES if name in file.files]
            sizes = {entry.filename: entry.file_size for entry in file.zip.infolist()} if file.zip else {}
            check_memory(sum(sizes[f"{name}.npy"] for name in names))
            return {name: _native(file[name]) for name in names}
    except BadInput:
        raise
    except Exception as error:  # there is no end of ways to be broken
        raise BadInput(f"inputs {path} cannot be read as .npz: {error or type(error).__name__}") from None


def _native(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _posed(path: str, arrays: Mapping[str, Any], asked: Asked, batch: int) -> Asked:
    q, k = arrays["q"], arrays["k"]
    for name in ("q", "k"):
        if arrays[name].shape[1] % batch:
            raise BadInput(f"inputs {path}: batch {batch} does not divide the {arrays[name].shape[1]} heads of {name}")
    phases = asked.phases if "do" in arrays or len(asked.phases) == 1 else [p for p in asked.phases if p != "train"]
    return replace(
        asked,
        phases=phases,
        heads=q.shape[1] // batch,
        kv_heads=k.shape[1] // batch,
        head_dim=q.shape[2],
        head_dim_v=arrays["v"].shape[2],
        given=(q.shape[0], k.shape[0]),
        dtype=q.dtype.name,
        sinks=asked.sinks or "sinks" in arrays,
    )
