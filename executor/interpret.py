"""What a compute op means on one rank's arrays, whatever runs it and wherever the arrays are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from algorithms import unknown
from algorithms.ir import Op, Value
from algorithms.ir.mask import Mask
from algorithms.ir.score import Score, alibi_slopes
from algorithms.ir.tokens import Tokens
from algorithms.ops import module
from algorithms.ops.attend_backward import joined
from executor.kernels import MODULES, Array, Kernel, find
from executor.kernels.shapes import computing_dtype

Meaning = Callable[..., tuple[Any, ...]]
Where = Callable[[Tokens], Array]
Heads = Callable[[Value], Array]


class Dense:
    """The definition of attention as a kernel: the dense meaning of the op, on NumPy arrays."""

    def attend(
        self, q: Array, k: Array, v: Array, rows: Array, cols: Array, mask: Mask, score: Score
    ) -> tuple[Array, Array]:
        """Attend as the op's meaning says."""
        q, k, v = (_computed(x) for x in (q, k, v))
        out, lse = module("attend").meaning(np, q, k, v, rows, cols, mask, score, v.shape[-1])
        return out, lse

    def attend_backward(
        self,
        q: Array,
        k: Array,
        v: Array,
        do: Array,
        lse: Array,
        delta: Array,
        rows: Array,
        cols: Array,
        mask: Mask,
        score: Score,
    ) -> tuple[Array, Array, Array]:
        """Differentiate as the op's meaning says."""
        arrays = [_computed(x) for x in (q, k, v, do, lse, delta)]
        meaning = module("attend_backward").meaning
        dq, dk, dv = meaning(np, *arrays, rows, cols, mask, score, v.shape[-1], shared=False)
        return dq, dk, dv


def _computed(x: Array) -> Array:
    return x.astype(computing_dtype(x), copy=False)


def kernel_called(name: str | Kernel) -> Kernel:
    """Return a kernel by name: one of `executor.kernels`, or dense (the definition); a kernel itself is returned.

    Raises:
        ValueError: there is no kernel of that name.
    """
    if not isinstance(name, str):
        return name
    if name not in ("dense", *MODULES):
        raise ValueError(unknown("kernel", name, sorted(("dense", *MODULES))))
    return Dense() if name == "dense" else find(name)


def fused_for(kernel: Kernel) -> Mapping[str, Meaning]:
    """What a kernel has, compiled, in place of the meanings of other ops on NumPy arrays, by kind."""
    found: Mapping[str, Meaning] = getattr(kernel, "fused", dict)()
    return found


def bind(
    op: Op,
    where: Where,
    kernel: Kernel,
    xp: ModuleType | Any = np,
    heads: Heads | None = None,
    fused: Mapping[str, Meaning] | None = None,
) -> Meaning:
    """Return what a compute op does with one rank's arrays, in the order of its inputs.

    Args:
        where: the positions that tokens stand for on that rank.
        kernel: attends; one of NumPy's arrays is given them, and arrays of another library are taken there and back.
        heads: folded numbers of the heads of which a value has rows there; for scores that heads bias, and sinks.
        fused: what stands in for the meaning of other ops, by kind.
    """
    if fused and op.kind in fused:
        return functools.partial(fused[op.kind], **op.params)
    if op.kind == "attend":
        return _attend(op, where, kernel, xp, score_of(op, heads))
    if op.kind == "attend_backward":
        return _attend_backward(op, where, kernel, xp, score_of(op, heads))
    if op.kind in ("seen", "widen"):
        rows, found = (where(x.tokens) for x in (op.inputs[0], op.outputs[0]))
        index = {"keep": _kept(rows, found)} if op.kind == "seen" else {"source": _sources(rows, found)}
        return functools.partial(module(op.kind).meaning, xp, **{name: xp.asarray(x) for name, x in index.items()})
    if op.kind == "sink" and heads is not None:
        out, lse = (heads(x) for x in op.inputs[:2])
        return functools.partial(module(op.kind).meaning, xp, first=int(np.flatnonzero(lse == out[0])[0]))
    if getattr(module(op.kind), "ROWS", False):
        counts = tuple(len(where(v.tokens)) for v in op.outputs)
        return functools.partial(module(op.kind).meaning, xp, rows=counts, **op.params)
    return functools.partial(module(op.kind).meaning, xp, **op.params)


def score_of(op: Op, heads: Heads | None) -> Score:
    """How an attention op makes logits on a rank: the slopes of a bias are those of the heads that it has there."""
    slopes = None
    if of := op.params.get("alibi", 0):
        if heads is None:
            raise TypeError(f"op {op.id} {op.kind} biases scores by head: bind needs to know which heads a rank has")
        slopes = alibi_slopes(of)[heads(op.inputs[0]) % of]
    return Score(op.params["scale"], op.params.get("softcap", 0.0), slopes)


def _kept(rows: Array, kept: Array) -> Array:
    """Which of the rows are kept, in order."""
    return np.flatnonzero(np.isin(rows, kept))


def _sources(rows: Array, wide: Array) -> Array:
    """Where each of more rows stands among the rows, -1 where it does not."""
    source = np.full(len(wide), -1)
    source[_kept(wide, rows)] = np.arange(len(rows))
    return source


def _attend(op: Op, where: Where, kernel: Kernel, xp: Any, score: Score) -> Meaning:
    rows, cols = (where(x.tokens) for x in op.inputs[:2])
    mask, width = op.params["mask"], op.params["head_dim_v"]
    dtype, attend = np.dtype(op.outputs[0].type.dtype), kernel.attend
    taken, given = _libraries(kernel, xp)

    def run(q: Any, k: Any, v: Any) -> tuple[Any, ...]:
        q, k, v = (taken(x) for x in (q, k, v))
        out, lse = attend(q, k, v[..., :width], rows, cols, mask, score)
        return _returned((out, lse), dtype, given)

    return run


def _attend_backward(op: Op, where: Where, kernel: Kernel, xp: Any, score: Score) -> Meaning:
    rows, cols = (where(x.tokens) for x in op.inputs[:2])
    mask, width = op.params["mask"], op.params["head_dim_v"]
    dtype, shared, attend_backward = np.dtype(op.outputs[0].type.dtype), op.params["shared"], kernel.attend_backward
    taken, given = _libraries(kernel, xp)

    def run(q: Any, k: Any, v: Any, do: Any, lse: Any, delta: Any) -> tuple[Any, ...]:
        q, k, v, do, lse, delta = (taken(x) for x in (q, k, v, do, lse, delta))
        gradients = attend_backward(q, k, v[..., :width], do, lse, delta, rows, cols, mask, score)
        return _returned(joined(*gradients, shared), dtype, given)

    return run


def _libraries(kernel: Kernel, xp: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any] | None]:
    """How a kernel takes arrays of a library, and how its results go back there; None: they are there."""
    if getattr(kernel, "ON_DEVICE", False):
        return lambda x: x, None
    return np.asarray, None if xp is np else xp.asarray


def _returned(results: tuple[Array, ...], dtype: Any, given: Callable[[Any], Any] | None) -> tuple[Any, ...]:
    """Results in the dtype in which they are kept, in the library of the inputs."""
    cast = tuple(x.astype(dtype, copy=False) for x in results)
    return cast if given is None else tuple(given(x) for x in cast)
