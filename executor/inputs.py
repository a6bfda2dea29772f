"""Inputs from a file, and the problem that they pose."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from executor.cases import Asked
from executor.errors import BadInput


def read_inputs(path: str, asked: Asked) -> tuple[dict[str, Any], Asked]:
    """Read q, k, v and do (N, batch * heads, D) from a .npz file, and ask for the problem they pose.

    Without do, nothing is asked of the programs that train.

    Raises:
        BadInput: no such file, an array missing or of no shape that makes a problem; sizes are said as well.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise BadInput(f"inputs {path} cannot be read as .npz: {error}") from None
    for name in ("q", "k", "v"):
        if name not in arrays:
            raise BadInput(f"inputs {path}: no array {name}: expected q, k, v, and do to train")
        shape = arrays[name].shape
        if len(shape) != 3 or 0 in shape:
            raise BadInput(f"inputs {path}: {name} must be (tokens, batch * heads, width), got shape {shape}")
    if asked.shape_said or asked.length_said:
        raise BadInput(f"inputs {path} say the sizes: leave out --seq, --heads and the like")
    return arrays, _posed(path, arrays, asked)


def _posed(path: str, arrays: Mapping[str, Any], asked: Asked) -> Asked:
    q, k, batch = arrays["q"], arrays["k"], asked.batch or 1
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
    )
