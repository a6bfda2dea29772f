"""Whole arrays in, whole arrays out: inputs of a problem, and results put together from what ranks hold."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from algorithms.ir import Attention, Op, Schedule
from algorithms.ir.tokens import Runs, Tokens
from algorithms.ops.load import held_heads, shard
from executor.errors import WrongResult

Array = NDArray[Any]
Arrays = Mapping[str, Array]

BY_KEY = ("dk", "dv")  # results whose rows are keys; those of all others, but for dsinks, are queries


def input_types(problem: Attention) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype of each whole input: (tokens, batch * heads, width); of sinks (heads,)."""
    heads, kv_heads = problem.batch * problem.heads, problem.batch * problem.kv_heads
    types: dict[str, tuple[tuple[int, ...], str]] = {
        "q": ((problem.query_len, heads, problem.head_dim), problem.dtype),
        "k": ((problem.key_len, kv_heads, problem.head_dim), problem.kv_dtype),
    }
    if not problem.shared_kv:
        types["v"] = (problem.key_len, kv_heads, problem.head_dim_v), problem.kv_dtype
    if problem.phase == "train":
        types["do"] = (problem.query_len, heads, problem.head_dim_v), problem.dtype
    if problem.sinks:
        types["sinks"] = (problem.heads,), problem.state_dtype
    return types


def random_inputs(problem: Attention, seed: int = 0) -> dict[str, Array]:
    """Draw the problem's inputs from a standard normal distribution, the same on every rank."""
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).astype(dtype) for name, (shape, dtype) in input_types(problem).items()}


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


def assemble(schedule: Schedule, name: str, parts: Sequence[Array]) -> list[Array]:
    """Put a result together from all ranks' parts, as often as the ranks hold it: rows by tokens, heads by number.

    Ranks that hold the same rows and heads may have rounded differently, so each of them makes a result of its own.
    A row that no rank holds is NaN. Where tp exceeds the KV heads, the gradients of the copies of one are summed.

    Raises:
        WrongResult: a part is of other rows or of another shape than it says.
    """
    value, problem, mesh = schedule.results[name], schedule.problem, schedule.mesh
    heads, rows, copies = problem.heads, 1 if name == "dsinks" else problem.query_len, 1
    if name in BY_KEY:
        heads, rows = problem.kv_heads, problem.key_len
        copies = max(1, mesh.axes.get("tp", 1) // heads)
    width = value.type.width[1:]
    wholes: list[_Whole] = []
    positions = Positions(schedule).all(value.tokens)
    for rank, part in enumerate(parts):
        tokens, columns = row_numbers(name, positions[rank], problem), held_heads(value, problem, mesh, rank, heads)
        _check_part(name, rank, part, tokens, rows, (len(tokens), len(columns), *width))
        copy, at = int(mesh.of_rank(rank).get("tp", np.zeros(()))) % copies, np.ix_(tokens, columns)
        whole = next((one for one in wholes if not one.held[copy][at].any()), None)
        if whole is None:
            shape = copies, rows, problem.batch * heads, *width
            start = wholes[0].values.copy() if wholes else np.full(shape, np.nan, np.dtype(value.type.dtype))
            whole = _Whole(start, np.zeros(shape[:3], bool))
            wholes.append(whole)
        whole.values[copy][at], whole.held[copy][at] = part, True
    return [functools.reduce(np.add, whole.values) for whole in wholes]


class _Whole(NamedTuple):
    """A result that is being put together, (copies of a KV head, rows, heads, ...), and what of it is there."""

    values: Array
    held: NDArray[np.bool_]


def row_numbers(name: str, positions: Array, problem: Attention) -> Array:
    """The rows of a whole result that stand for these positions."""
    if name == "dsinks":
        return positions - problem.key_len
    return positions if name in BY_KEY else problem.query_rows(positions)


def _check_part(name: str, rank: int, part: Array, tokens: Array, rows: int, shape: tuple[int, ...]) -> None:
    """Refuse a part that NumPy would stretch, or put in another place."""
    if (got := getattr(part, "shape", None)) != shape:  # None: nothing wrote it
        raise WrongResult(f"{name} of rank {rank} has shape {got}, its rows and heads make {shape}")
    if len(tokens) and not 0 <= tokens.min() <= tokens.max() < rows:
        raise WrongResult(f"{name} of rank {rank} has rows that are none of the {rows} of the result")
