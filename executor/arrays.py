"""Whole arrays in, whole arrays out: inputs of a problem, and results put together from what ranks hold."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.ir import Attention, Op, Schedule
from algorithms.ir.tokens import Runs, Tokens
from algorithms.ops.load import heads_of, shard
from executor.errors import BadInput, WrongResult

Array = NDArray[Any]
Arrays = Mapping[str, Array]

RUNNABLE = ("float64", "float32", "float16")
MOST_SCORES = 2**38
BY_KEY = ("dk", "dv")  # results whose rows are keys; those of all others are queries


def check_dtypes(problem: Attention) -> None:
    """Refuse types that NumPy does not have.

    Raises:
        BadInput: the first such dtype of the problem.
    """
    for name in ("dtype", "kv_dtype", "state_dtype", "grad_dtype"):
        if (value := getattr(problem, name)) not in RUNNABLE:
            raise BadInput(f"{name} {value} cannot be run, NumPy has no such type: expected {', '.join(RUNNABLE)}")


def check_size(problem: Attention) -> None:
    """Refuse a problem too large to run here, or to compute densely beside it.

    Raises:
        BadInput: inputs of more than a quarter of the memory, or more scores than a reference takes in an hour.
    """
    needed = sum(prod(shape) * np.dtype(dtype).itemsize for shape, dtype in input_types(problem).values())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**34
    if needed > memory // 4:
        have = f"memory is {memory / 2**30:.3g} GiB"
        raise BadInput(f"inputs of {needed / 2**30:.3g} GiB are too large to run here: {have}")
    scores = problem.batch * problem.heads * problem.query_len * problem.key_len
    if scores > MOST_SCORES:
        raise BadInput(f"{scores:.3g} scores are too many to compute densely as a reference: at most {MOST_SCORES:.3g}")


def input_types(problem: Attention) -> dict[str, tuple[tuple[int, int, int], str]]:
    """Shape and dtype of each whole input: (tokens, batch * heads, width)."""
    heads, kv_heads = problem.batch * problem.heads, problem.batch * problem.kv_heads
    types = {
        "q": ((problem.query_len, heads, problem.head_dim), problem.dtype),
        "k": ((problem.key_len, kv_heads, problem.head_dim), problem.kv_dtype),
    }
    if not problem.shared_kv:
        types["v"] = (problem.key_len, kv_heads, problem.head_dim_v), problem.kv_dtype
    if problem.phase == "train":
        types["do"] = (problem.query_len, heads, problem.head_dim_v), problem.dtype
    return types


def random_inputs(problem: Attention, seed: int = 0) -> dict[str, Array]:
    """Draw the problem's inputs from a standard normal distribution, the same on every rank."""
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).astype(dtype) for name, (shape, dtype) in input_types(problem).items()}


def check_inputs(problem: Attention, arrays: Arrays) -> None:
    """Refuse inputs that do not fit the problem, or are not finite.

    Raises:
        BadInput: an array that is missing, of another shape or dtype, or holds a NaN or an infinity.
    """
    for name, (shape, dtype) in input_types(problem).items():
        if name not in arrays:
            raise BadInput(f"input {name} is missing: expected {dtype} {shape}")
        array = arrays[name]
        if array.shape != shape or array.dtype.name != dtype:
            raise BadInput(f"input {name} must be {dtype} {shape}, got {array.dtype.name} {array.shape}")
        finite = np.isfinite(array)
        if not finite.all():
            at = tuple(int(i) for i in np.argwhere(~finite)[0])
            raise BadInput(f"inputs must be finite: {name}{list(at)} is {array[at]}")


def loaded(op: Op, arrays: Arrays, schedule: Schedule, rank: int) -> Array:
    """What a load op reads on one rank, contiguous in memory."""
    return np.ascontiguousarray(shard(op, dict(arrays), schedule.problem, schedule.mesh, rank))


class Positions:
    """The global positions that tokens stand for, worked out once for all ranks, or for one."""

    def __init__(self, schedule: Schedule, rank: int | None = None) -> None:
        """Answer for every rank of the schedule's mesh, or for one only."""
        self.mesh, self.rank = schedule.mesh, rank
        self.coords = self.mesh.grid() if rank is None else self.mesh.of_rank(rank)
        self._known: dict[int, tuple[Tokens, list[Array]]] = {}

    def __call__(self, tokens: Tokens) -> Array:
        """Return the positions on the one rank, in the order of the rows."""
        return self.all(tokens)[0]

    def all(self, tokens: Tokens) -> list[Array]:
        """Return the positions on each rank."""
        if id(tokens) not in self._known:
            runs = tokens.runs(self.coords)
            shape = (*(self.mesh.shape if self.rank is None else ()), np.broadcast(runs.start, runs.count).shape[-1])
            start, count = (np.broadcast_to(x, shape).reshape(-1, shape[-1]) for x in (runs.start, runs.count))
            ranks = [Runs(a, n, runs.step).positions() for a, n in zip(start, count, strict=True)]
            self._known[id(tokens)] = tokens, ranks
        return self._known[id(tokens)][1]


def assemble(schedule: Schedule, name: str, parts: Sequence[Array]) -> Array:
    """Put a result together from all ranks' parts: rows by tokens, heads by dp and tp.

    A row that no rank holds is NaN. Where tp exceeds the KV heads, the gradients of the copies of one are summed.

    Raises:
        WrongResult: ranks that hold the same rows and heads differ in them.
    """
    value, problem, mesh = schedule.results[name], schedule.problem, schedule.mesh
    heads, rows, first = problem.heads, problem.query_len, problem.cached
    copies = 1
    if name in BY_KEY:
        heads, rows, first = problem.kv_heads, problem.key_len, 0
        copies = max(1, mesh.axes.get("tp", 1) // heads)
    dtype = np.dtype(value.type.dtype)
    whole = np.full((copies, rows, problem.batch * heads, *value.type.width[1:]), np.nan, dtype)
    positions = Positions(schedule).all(value.tokens)
    for rank, part in enumerate(parts):
        tokens = positions[rank] - first
        at = np.ix_(tokens, heads_of(problem, mesh, rank, heads))
        copy = whole[int(mesh.of_rank(rank).get("tp", np.zeros(()))) % copies]
        before = copy[at]
        if (differs := ~np.isnan(before) & (before != part)).any():
            row = tokens[np.argwhere(differs)[0][0]] + first
            raise WrongResult(f"{name} of position {row} on rank {rank} differs from that of another rank")
        copy[at] = part
    return functools.reduce(np.add, whole)
