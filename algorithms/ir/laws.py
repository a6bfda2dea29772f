"""The laws of a schedule (docs/notation.md), checked on its ops, values and tokens.

Most laws are kept while tracing, by the ops that could break them. `check` goes over a whole schedule again
and adds what only the whole can show: S1, S2, S8, S9, S10.
"""

from __future__ import annotations

import numpy as np

from algorithms import unknown
from algorithms.ir.expr import Const, Ints, ScheduleError
from algorithms.ir.mesh import JOB_AXES, Mesh
from algorithms.ir.order import overwrites
from algorithms.ir.schedule import Op, Schedule, Value, per_rank
from algorithms.ir.tokens import Runs, Tokens
from algorithms.ops import module
from algorithms.ops.load import shard_width

_PRIMES = np.array([2**31 - 1, 2**31 - 19], dtype=np.int64)
_BASES = np.array([1_234_567_891, 987_654_323], dtype=np.int64)
Met = Ints | None
RESULTS = ("out", "lse", "dq", "dk", "dv")
WHOLE = {"prefill": ("out", "lse"), "decode": ("out", "lse"), "train": ("dq", "dk", "dv")}


def check(schedule: Schedule) -> None:
    """Check all laws that a finished schedule can be held to.

    Raises:
        ScheduleError: the first law broken, by number, with the op, the value and the rank.
    """
    _written_once_and_before(schedule)
    overwrites(schedule)  # refuses what breaks S9
    laws = Laws(schedule.mesh)
    met = laws.follow(schedule)
    _exactly_once(schedule, laws, met)
    _every_row(schedule, laws)


def _written_once_and_before(schedule: Schedule) -> None:
    written: dict[int, Value] = {}
    for op in schedule.ops:
        for v in op.inputs:
            if written.get(v.id) is not v:  # not there yet, or of another tracing
                raise ScheduleError(f"S2: {schedule.name}: op {op.id} {op.kind} reads {v} before it is written")
        for v in op.outputs:
            if v.id in written:
                raise ScheduleError(f"S1: {schedule.name}: op {op.id} {op.kind} writes {v} a second time")
            written[v.id] = v
    for name, v in schedule.results.items():
        if written.get(v.id) is not v:
            raise ScheduleError(f"S2: {schedule.name}: result {name} is {v}, which nothing writes")


def _exactly_once(schedule: Schedule, laws: Laws, met: dict[int, Met]) -> None:
    problem = schedule.problem
    keys = laws.of_runs(Runs(np.array([0]), np.array([problem.key_len]), 1))
    queries = laws.of_runs(Runs(np.array([problem.cached]), np.array([problem.query_len]), 1))
    sides = {f"result {name}": (v, name in ("dk", "dv")) for name, v in schedule.results.items()}
    sides |= {f"lse of op {op.id}": (op.inputs[4], False) for op in schedule.ops if op.kind == "attend_backward"}
    for name, (v, by_queries) in sides.items():
        what, want = ("query", queries) if by_queries else ("key", keys)
        got = met.get(v.id)
        wrong = np.arange(laws.mesh.size) if got is None else np.flatnonzero((got != want).any(-1))
        holds = per_rank(v.type.rows, laws.mesh) > 0
        wrong = wrong[holds[wrong]]
        if len(wrong):
            raise ScheduleError(
                f"S8: {schedule.name}: {name} of rank {wrong[0]} has not met every {what} exactly once "
                f"({len(wrong)} of {laws.mesh.size} ranks)"
            )


def _every_row(schedule: Schedule, laws: Laws) -> None:
    problem, mesh = schedule.problem, schedule.mesh
    _every_result(schedule)
    _every_head(schedule)
    copies = int(np.prod([mesh.axes.get(a, 1) for a in JOB_AXES]))
    for name, v in schedule.results.items():
        start, n = (0, problem.key_len) if name in ("dk", "dv") else (problem.cached, problem.query_len)
        whole = laws.of_runs(Runs(np.array([start]), np.array([n]), 1))
        held = laws.name(v.tokens)
        dealt = (held.sum(0) % _PRIMES == whole * copies % _PRIMES).all()
        if not dealt and not (held == whole).all():
            raise ScheduleError(
                f"S10: {schedule.name}: the ranks' rows of result {name} are not every row once: {v.tokens}"
            )


def _every_result(schedule: Schedule) -> None:
    for name in schedule.results:
        if name not in RESULTS:
            raise ScheduleError(f"S10: {schedule.name}: {unknown('result', str(name), RESULTS)}")
    phase = schedule.problem.phase
    for name in WHOLE[phase]:
        if name not in schedule.results:
            raise ScheduleError(f"S10: {schedule.name}: {phase} has results {', '.join(WHOLE[phase])}: no {name}")


def _every_head(schedule: Schedule) -> None:
    problem, mesh = schedule.problem, schedule.mesh
    q = shard_width(mesh, problem, problem.heads, problem.head_dim)
    out = (q[0], problem.head_dim_v)
    k = shard_width(mesh, problem, problem.kv_heads, problem.head_dim)
    v = k if problem.shared_kv else (k[0], problem.head_dim_v)
    expected = {"out": out, "lse": out[:1], "dq": q, "dk": k, "dv": v}
    for name, value in schedule.results.items():
        if value.type.width != expected.get(name, value.type.width):
            raise ScheduleError(
                f"S10: {schedule.name}: a row of result {name} has all heads of the rank's job, "
                f"{expected[name]}, got {value.type.width}"
            )


class Laws:
    """Fingerprints of named tokens: sums of x^position modulo two primes, in closed form on runs.

    Two sets of tokens with the same totals but different members have different fingerprints (but for a
    chance of about length / 2^62); a token met twice counts twice.
    """

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._names: dict[int, tuple[Tokens, Ints]] = {}

    def follow(self, schedule: Schedule) -> dict[int, Met]:
        """What each value's rows have met of the other side, by value id."""
        met: dict[int, Met] = {}
        for op in schedule.ops:
            inputs = [met[v.id] for v in op.inputs]
            rule = getattr(module(op.kind), "met", None)
            outputs = rule(op, inputs, self) if rule else [inputs[0] if inputs else None] * len(op.outputs)
            met |= {v.id: m for v, m in zip(op.outputs, outputs, strict=True)}
        return met

    def name(self, tokens: Tokens) -> Ints:
        """Fingerprint of the tokens each rank holds, (P, 2)."""
        if id(tokens) not in self._names:
            prints = self.of_runs(tokens.runs(self.mesh.grid()))
            wide = np.broadcast_to(prints, (*self.mesh.shape, 2)).reshape(-1, 2)
            self._names[id(tokens)] = tokens, wide
        return self._names[id(tokens)][1]

    def of_runs(self, runs: Runs) -> Ints:
        """Fingerprint of runs, summed over their last dimension, which becomes the two primes."""
        start, count = np.broadcast_arrays(runs.start, runs.count)
        first, width = _power(_BASES, start), _power(_BASES, count * runs.step)
        below = [pow(int(b), runs.step, int(p)) - 1 for b, p in zip(_BASES, _PRIMES, strict=True)]
        inverse = np.array([pow(x, -1, int(p)) for x, p in zip(below, _PRIMES, strict=True)], dtype=np.int64)
        each = first * ((width - 1) % _PRIMES * inverse % _PRIMES) % _PRIMES
        return np.asarray(each.sum(-2) % _PRIMES)

    def both(self, a: Met, b: Met) -> Met:
        """Met by either of two operands."""
        return None if a is None or b is None else (a + b) % _PRIMES

    def of_held(self, x: Met, v: Value) -> Met:
        """Met by the rows of a value on the ranks that hold some, nothing elsewhere."""
        return x if x is None or isinstance(v.type.rows, Const) else np.where(self._holds(v, x), x, 0)

    def _holds(self, v: Value, like: Ints) -> Ints:
        holds: Ints = (per_rank(v.type.rows, self.mesh) > 0).astype(np.int64)
        return holds.reshape(-1, *[1] * (like.ndim - 1))

    def of_one(self, xs: list[Met], op: Op) -> Met:
        """Met alike by the rows of all values that a rank holds some of; those that differ cannot be followed."""
        found: Met = np.zeros((), dtype=np.int64)
        for x, v in zip(xs, op.inputs, strict=True):
            found = None if x is None or found is None else np.where(self._holds(v, x), x, found)
        for x, v in zip(xs, op.inputs, strict=True):
            if x is not None and found is not None and (self._holds(v, x) * (x != found)).any():
                raise ScheduleError(f"S8: op {op.id} {op.kind} joins rows that have met different keys")
        return found

    def together(self, x: Met, op: Op) -> Met:
        """Met by the members of a group together."""
        if x is None:
            return None
        groups = self.mesh.groups(op.over)
        total = np.empty_like(x)
        total[groups] = (x[groups].sum(1) % _PRIMES)[:, None]
        return total

    def uniform(self, x: Met, op: Op) -> Met:
        """Met by every member alike; a group that differs cannot be followed and is refused."""
        if x is not None and (x[self.mesh.groups(op.over)] != x[self.mesh.groups(op.over)][:, :1]).any():
            raise ScheduleError(f"S8: op {op.id} {op.kind} over {op.over} joins rows that have met different keys")
        return x

    def of_member(self, x: Ints, op: Op, member: int) -> Ints:
        """What one member of each group had met."""
        groups, result = self.mesh.groups(op.over), np.empty_like(x)
        result[groups] = x[groups][:, member : member + 1]
        return result


def _power(base: Ints, exponent: Ints) -> Ints:
    """base ** exponent modulo the two primes, along a new last dimension."""
    e = exponent[..., None] % (_PRIMES - 1)
    result, square = np.ones_like(e), np.broadcast_to(base, e.shape)
    while e.any():
        result = np.where(e & 1, result * square % _PRIMES, result)
        square, e = square * square % _PRIMES, e >> 1
    return result
