"""The laws of a schedule (docs/notation.md), checked on its ops, values and tokens.

Most laws are kept while tracing, by the ops that could break them. `check` goes over a whole schedule again
and adds what only the whole can show: S1, S2, S8, S9, S10.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from algorithms import unknown
from algorithms.ir.expr import Const, Coords, Ints, ScheduleError
from algorithms.ir.layout import Layout
from algorithms.ir.mask import FULL
from algorithms.ir.mesh import JOB_AXES, Mesh
from algorithms.ir.order import overwrites
from algorithms.ir.problem import Attention
from algorithms.ir.schedule import Op, Schedule, Value, per_rank
from algorithms.ir.segments import Segments, cut, segments
from algorithms.ir.tokens import Block, Gather, Runs, Tokens
from algorithms.ops import module
from algorithms.ops.load import shard_width

_PRIMES = np.array([2**31 - 1, 2**31 - 19], dtype=np.int64)
_BASES = np.array([1_234_567_891, 987_654_323], dtype=np.int64)
_HEAD_BASES = np.array([1_122_334_457, 876_543_211], dtype=np.int64)  # so that no row passes for a head
Met = Ints | None
RESULTS = ("out", "lse", "dq", "dk", "dv", "dsinks")
BY_QUERIES = ("dk", "dv", "dsinks")  # results that meet queries; the others meet keys
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
    for name, v in _meeting(schedule).items():
        what, want = _wanted(schedule, name)
        wrong = _differs(met.get(v.id), laws.of_runs(want), laws.mesh)
        wrong = wrong[per_rank(v.type.rows, laws.mesh)[wrong] > 0]
        if len(wrong) and schedule.problem.mask != FULL:
            wrong = np.intersect1d(wrong, _unseen_aside(schedule, name, v))
        if len(wrong):
            raise ScheduleError(
                f"S8: {schedule.name}: {name} of rank {wrong[0]} has not met every {what} exactly once "
                f"({len(wrong)} of {laws.mesh.size} ranks)"
            )


def _meeting(schedule: Schedule) -> dict[str, Value]:
    """The values whose rows must have met all of the other side, each once, by what messages call them."""
    place = {"attend_backward": 4, "sink_gradient": 1}
    named = [(f"result {name}", v) for name, v in schedule.results.items()]
    named += [(f"lse of op {op.id}", op.inputs[place[op.kind]]) for op in schedule.ops if op.kind in place]
    first = {(v.id, _side(name)): (name, v) for name, v in reversed(named)}
    return dict(reversed(first.values()))


def _side(name: str) -> str:
    """Which side a value must have met: queries, keys, or keys and the sink."""
    result = name.removeprefix("result ")
    return "query" if result in BY_QUERIES else "key" if result == "dq" else "key and the sink"


def _wanted(schedule: Schedule, name: str) -> tuple[str, Runs]:
    """What a value must have met: all queries; or all keys, and where there are sinks one more that stands for them."""
    side, problem = _side(name), schedule.problem
    if side == "query":
        return side, problem.query_runs
    one_more = problem.sinks and side != "key"
    return side if one_more else "key", Runs(np.array([0]), np.array([problem.key_len + one_more]), 1)


def _differs(got: Met, want: Ints, mesh: Mesh) -> Ints:
    """The ranks that have not met what they should."""
    return np.arange(mesh.size) if got is None else np.flatnonzero((got != want).reshape(mesh.size, -1).any(-1))


def _unseen_aside(schedule: Schedule, name: str, v: Value) -> Ints:
    """The ranks that have not met all that some row of theirs sees, looked at segment by segment."""
    _, want = _wanted(schedule, name)
    wrong = np.zeros(schedule.mesh.size, dtype=bool)
    for part in segments(schedule, v, name.removeprefix("result ") in BY_QUERIES, want):
        laws = Laws(schedule.mesh, part)
        got = laws.follow(schedule).get(v.id)
        if got is None:
            return np.arange(schedule.mesh.size)
        wrong |= ((got != laws.of_runs(cut(want, part.edges))).any(-1) & part.needed).any(-1)
    return np.flatnonzero(wrong)


def _every_row(schedule: Schedule, laws: Laws) -> None:
    """Law S10: every row of every head is a result once, or all are on every rank."""
    problem, mesh = schedule.problem, schedule.mesh
    _every_result(schedule)
    widths = _widths(schedule)
    copies = int(np.prod([mesh.axes.get(a, 1) for a in JOB_AXES]))
    for name, v in schedule.results.items():
        rows = laws.of_runs(_rows_of(name, problem))
        heads = laws.of_heads(np.zeros(1, np.int64), widths[name][0])
        whole, held = rows * heads % _PRIMES, laws.name(v.tokens) * laws.heads(v) % _PRIMES
        dealt = (held.sum(0) % _PRIMES == whole * copies % _PRIMES).all()
        if not dealt and not (held == whole).all():
            what, where = "rows", f"{v.tokens}"
            if v.type.width[0] != widths[name][0]:
                what, where = "rows and heads", f"{v.tokens}, {v.type.width[0]} heads from {v.heads} on"
            raise ScheduleError(
                f"S10: {schedule.name}: the ranks' {what} of result {name} are not every row once: {where}"
            )


def _rows_of(name: str, problem: Attention) -> Runs:
    """The positions of a result's rows."""
    if name not in BY_QUERIES:
        return problem.query_runs
    start, n = (problem.key_len, 1) if name == "dsinks" else (0, problem.key_len)
    return Runs(np.array([start]), np.array([n]), 1)


def _every_result(schedule: Schedule) -> None:
    for name in schedule.results:
        if name not in RESULTS:
            raise ScheduleError(f"S10: {schedule.name}: {unknown('result', str(name), RESULTS)}")
    phase = schedule.problem.phase
    whole = WHOLE[phase] + ("dsinks",) * (schedule.problem.sinks and phase == "train")
    for name in whole:
        if name not in schedule.results:
            raise ScheduleError(f"S10: {schedule.name}: {phase} has results {', '.join(whole)}: no {name}")


def _widths(schedule: Schedule) -> dict[str, tuple[int, ...]]:
    """A row of each result: all heads of the rank's job, or some of them, which have its width."""
    problem, mesh = schedule.problem, schedule.mesh
    q = shard_width(mesh, problem, problem.heads, problem.head_dim)
    out = (q[0], problem.head_dim_v)
    k = shard_width(mesh, problem, problem.kv_heads, problem.head_dim)
    v = k if problem.shared_kv else (k[0], problem.head_dim_v)
    whole: dict[str, tuple[int, ...]] = {"out": out, "lse": out[:1], "dq": q, "dk": k, "dv": v, "dsinks": out[:1]}
    for name, value in schedule.results.items():
        if value.type.width[1:] != whole[name][1:] or value.type.width[0] > whole[name][0]:
            raise ScheduleError(
                f"S10: {schedule.name}: a row of result {name} has heads of the rank's job, "
                f"{whole[name]} in all, got {value.type.width}"
            )
    return whole


class Laws:
    """Fingerprints of named tokens: sums of x^position modulo two primes, in closed form on runs.

    Two sets of tokens with the same totals but different members have different fingerprints (but for a
    chance of about length / 2^62); a token met twice counts twice.
    """

    def __init__(self, mesh: Mesh, segments: Segments | None = None) -> None:
        """Follow what is met as a whole, (P, 2), or of each of some segments of the positions, (P, segments, 2)."""
        self.mesh, self.segments = mesh, segments
        self._names: dict[int, tuple[Tokens, Ints]] = {}
        self._shards: dict[Layout, Ints] = {}

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
        """Fingerprint of the tokens each rank holds, (P, ..., 2)."""
        if id(tokens) not in self._names:
            prints = self._prints(tokens, self.mesh.grid())
            own = prints.shape[-1 if self.segments is None else -2 :]
            wide = np.broadcast_to(prints, (*self.mesh.shape, *own)).reshape(-1, *own)
            self._names[id(tokens)] = tokens, wide
        return self._names[id(tokens)][1]

    def _prints(self, tokens: Tokens, coords: Coords) -> Ints:
        """Fingerprint of tokens on coordinates; what is known of a layout's shards is not worked out again."""
        if isinstance(tokens, Gather):
            each = self._prints(tokens.inner, tokens.inside(coords))
            own = each.shape[-1 if self.segments is None else -2 :]
            members = np.broadcast_shapes(each.shape[: -len(own)], (tokens.members,))
            return np.asarray(np.broadcast_to(each, (*members, *own)).sum(len(members) - 1) % _PRIMES)
        if isinstance(tokens, Block) and tokens.layout.p <= self.mesh.size:
            if tokens.layout not in self._shards:
                self._shards[tokens.layout] = self._named(tokens.layout.runs(np.arange(tokens.layout.p)))
            return self._shards[tokens.layout][tokens.index.at(coords)]
        return self._named(tokens.runs(coords))

    def _named(self, runs: Runs) -> Ints:
        return self.of_runs(runs if self.segments is None else cut(runs, self.segments.edges))

    def heads(self, v: Value) -> Ints:
        """Fingerprint of the heads that each rank holds of a value, (P, 2)."""
        return self.of_heads(per_rank(v.heads, self.mesh), v.type.width[0])

    def of_heads(self, first: Ints, count: int) -> Ints:
        """Fingerprint of this many heads from each of these on; times one of rows it names the rows of heads."""
        return self.of_runs(Runs(first[:, None], np.array([count]), 1), _HEAD_BASES)

    def of_runs(self, runs: Runs, bases: Ints = _BASES) -> Ints:
        """Fingerprint of runs, summed over their last dimension, which becomes the two primes."""
        start, count = np.broadcast_arrays(runs.start, runs.count)
        first, width = _power(bases, start), _power(bases, count * runs.step)
        below = [pow(int(b), runs.step, int(p)) - 1 for b, p in zip(bases, _PRIMES, strict=True)]
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

    def alike(self, xs: Sequence[Met], op: Op) -> Met:
        """Met by each of several operands; those that differ cannot be followed and are refused."""
        first, *others = xs
        if first is None or any(x is None for x in others):
            return None
        if any(np.any(x != first) for x in others):
            raise ScheduleError(f"S8: op {op.id} {op.kind} joins heads that have met different keys")
        return first

    def together(self, x: Met, op: Op) -> Met:
        """Met by the members of a group together."""
        if x is None:
            return None
        groups = self.mesh.groups(op.over)
        total = np.empty_like(x)
        total[groups] = (x[groups].sum(1) % _PRIMES)[:, None]
        return total

    def visits(self, xs: list[Ints], op: Op) -> Ints:
        """Met by what each member left at the member 0, 1, 2, ... places on."""
        groups, total = self.mesh.groups(op.over), np.zeros_like(xs[0])
        for step, x in enumerate(xs):
            total[groups] += np.roll(x[groups], -step, axis=1)
        return total % _PRIMES

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
