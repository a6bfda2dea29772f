"""Prove algorithms exact by running them: case by case, against dense attention, within the bounds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from algorithms.ir import Attention, Inapplicable, Schedule, ScheduleError
from algorithms.ir.laws import check as check_laws
from algorithms.ir.score import Score
from algorithms.own import written
from executor import local
from executor.arrays import Arrays, random_inputs
from executor.cases import Case
from executor.errors import BadInput
from executor.exact import Parts, Reference, Verdict, judge, reference
from executor.interpret import fused_for, kernel_called
from executor.limits import check_dtypes, check_inputs, check_size

Work = Sequence[tuple[Schedule, Arrays]]
Runner = Callable[[Work], Sequence[Parts] | None]  # None where the results are not


@dataclass
class Row:
    """What came of one program on one mesh and layout.

    Attributes:
        cases: how many problems were run. share: the worst error as a share of its bound; at most 1 is exact.
        worst: the problem and result it was found in. fault: what else was wrong, if anything.
        exact: every result of every case was within its bound, and every schedule kept the laws.
        skipped: why the program cannot serve some of the problems.
    """

    case: Case
    cases: int = 0
    share: float = 0.0
    worst: str = ""
    fault: str = ""
    exact: bool = True
    skipped: set[str] = field(default_factory=set)

    def take(self, schedule: Schedule, verdict: Verdict) -> None:
        """Judge one case: the worst is kept, and one that is wrong is worse than one that is not."""
        law = broken_law(schedule)
        exact = verdict.share <= 1 and not law
        if (not exact, verdict.share) > (not self.exact, self.share):
            self.exact, self.share, self.fault = exact, verdict.share, law or verdict.fault
            self.worst = f"{verdict.result or 'result'} of {described(schedule.problem)}"


class Known:
    """Inputs and references, worked out once for all meshes and layouts that share a problem."""

    def __init__(self, seed: int, arrays: Arrays | None = None, half_weights: bool = False) -> None:
        """Draw inputs from this seed, or use the arrays of a file for every problem.

        Args:
            half_weights: as `executor.exact.reference` has it.
        """
        self.seed, self.arrays = seed, arrays
        self._inputs = functools.cache(self._make)
        self._references = functools.cache(lambda problem: reference(problem, self._inputs(problem), half_weights))

    def inputs(self, problem: Attention) -> Arrays:
        """The problem's inputs, checked."""
        return self._inputs(_undealt(problem))

    def reference(self, problem: Attention) -> Reference:
        """Dense attention on them."""
        known: Reference = self._references(_undealt(problem))
        return known

    def _make(self, problem: Attention) -> Arrays:
        arrays = random_inputs(problem, self.seed) if self.arrays is None else self.arrays
        check_inputs(problem, arrays)
        return arrays


def _undealt(problem: Attention) -> Attention:
    return replace(problem, layout="contiguous")


def prove(cases: Sequence[Case], known: Known, run: Runner) -> Iterator[Row]:
    """Run all cases and judge them where the results are; elsewhere the rows count nothing.

    Raises:
        BadInput: an algorithm that breaks a law and cannot be run, or fails in its own code.
    """
    for case in cases:
        row = Row(case)
        work = [(schedule, known.inputs(schedule.problem)) for schedule in schedules(case, row.skipped)]
        results = _run(run, work, row)
        row.cases = len(work)
        for (schedule, _), parts in zip(work, results or (), strict=results is not None):
            row.take(schedule, judge(schedule, parts, known.reference(schedule.problem)))
        yield row


def _run(run: Runner, work: Work, row: Row) -> Sequence[Parts] | None:
    try:
        return run(work)
    except BadInput:
        raise
    except Exception:
        for law in (broken_law(schedule) for schedule, _ in work):
            if law:
                raise BadInput(f"{row.case.algorithm} on {row.case.mesh}: {law}") from None
        raise


def schedules(case: Case, skipped: set[str]) -> Iterator[Schedule]:
    """Trace a case's problems; why the algorithm cannot serve some of them is added to `skipped`."""
    for problem in case.problems:
        try:
            yield traced(case, problem)
        except Inapplicable as reason:
            skipped.add(str(reason))


def traced(case: Case, problem: Attention) -> Schedule:
    """Trace a case's program.

    Raises:
        Inapplicable: the algorithm cannot serve the problem.
        BadInput: anything else that stops it.
    """
    try:
        return written(f"{case.algorithm} on {case.mesh}", case.program, problem, case.mesh)
    except Inapplicable:
        raise
    except ScheduleError as error:
        raise BadInput(str(error)) from None


def in_one_process(kernel: str, ways: Mapping[str, str] | None, xp: Any = np) -> Runner:
    """Run all ranks of a schedule in this process, their arrays in this library."""

    def run(work: Work) -> list[Parts]:
        return [_hosted(local.run(schedule, arrays, xp, kernel, ways).results) for schedule, arrays in work]

    return run


def _hosted(results: Parts) -> Parts:
    """Results as arrays of NumPy; CuPy's say how they become such."""
    return {name: [x.get() if hasattr(x, "get") else x for x in ranks] for name, ranks in results.items()}


def warm(kernel: str, problem: Attention) -> None:
    """Compile the kernel for a problem's dtypes, or load what an earlier run compiled."""
    chosen, at = kernel_called(kernel), np.arange(1)
    if getattr(chosen, "ON_DEVICE", False):
        return  # CuPy compiles when it first launches, and torch has been compiled
    q, k = np.zeros((1, 1, 1), problem.dtype), np.zeros((1, 1, 1), problem.kv_dtype)
    out, lse = chosen.attend(q, k, k, at, at, problem.mask, Score(1.0))
    if merge := fused_for(chosen).get("merge"):
        state = out.astype(problem.state_dtype), lse.astype(problem.state_dtype)
        merge(*state, *state)
    if problem.phase == "train":
        chosen.attend_backward(q, k, k, q, lse, lse, at, at, problem.mask, Score(1.0))


def refuse_unrunnable(cases: Sequence[Case], known: Known) -> None:
    """Check dtypes and inputs of all cases before any of them runs.

    Raises:
        BadInput: the first that cannot be run.
    """
    for problem in {_undealt(problem) for case in cases for problem in case.problems}:
        check_dtypes(problem)
        check_size(problem)
        known.inputs(problem)


def broken_law(schedule: Schedule) -> str:
    """The law that a schedule breaks, if the checker sees one: why a result is wrong, or would be elsewhere."""
    try:
        check_laws(schedule)
    except ScheduleError as error:
        return str(error)
    return ""


def described(problem: Attention) -> str:
    """A problem in a few words."""
    heads = f"{problem.heads}/{problem.kv_heads} heads x {problem.head_dim}"
    if problem.head_dim_v != problem.head_dim:
        heads += f"/{problem.head_dim_v}"
    one = ", K and V one tensor" if problem.shared_kv else ""
    names = {"alibi": problem.alibi, "sinks": problem.sinks, f"softcap {problem.softcap:g}": problem.softcap}
    more = "".join(f", {name}" for name, there in names.items() if there)
    return f"{problem.mask.short} {problem.query_len} of {problem.key_len} tokens, {heads}{one}{more}, {problem.dtype}"
