"""What `time` runs: one algorithm on one problem and one mesh of all ranks, chosen as `ringloom simulate` chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from algorithms.ir import Attention, Inapplicable, Mesh, Schedule, ScheduleError
from algorithms.ir.laws import check
from algorithms.options import Asked, algorithms_from, job_from, problems_from
from algorithms.own import written
from executor.cases import state_of
from executor.errors import BadInput
from executor.limits import check_dtypes, check_memory_of


@dataclass(frozen=True)
class Chosen:
    """A schedule, and what it is called."""

    algorithm: str
    schedule: Schedule

    @property
    def mesh(self) -> Mesh:
        """Its mesh."""
        return self.schedule.mesh

    @property
    def problem(self) -> Attention:
        """Its problem, in its layout."""
        return self.schedule.problem

    def record(self, kernel: str, ways: Mapping[str, str] | None) -> dict[str, Any]:
        """What a simulator needs to make the same schedule: `mesh` and `ways` by name, the fields of the problem."""
        return {
            "algorithm": self.algorithm,
            "mesh": dict(self.mesh.axes),
            "problem": self.problem.describe(),
            "layout": self.problem.layout,
            "ways": "native" if ways is None else dict(ways),
            "dtype": self.problem.dtype,
            "kernel": kernel,
        }


def chosen(name: str, asked: Asked, ranks: int) -> Chosen:
    """Trace what the options mean: of several meshes that can run it the one nearest to square.

    Raises:
        BadInput: an option is wrong, a type that NumPy lacks, inputs too large, or an algorithm that cannot run.
    """
    try:
        return _chosen(name, asked, ranks)
    except (LookupError, ValueError) as error:
        raise BadInput(error.args[0] if error.args else str(error)) from None


def _chosen(name: str, asked: Asked, ranks: int) -> Chosen:
    programs = algorithms_from(name)
    if len(programs) != 1:
        raise BadInput(f"time takes one algorithm, got {name}")
    (algorithm, phases), said = *programs.items(), _typed(asked)
    kinds = problems_from(said)
    problem = kinds[0][1]
    if len(kinds) > 1:
        raise BadInput(f"time runs one layer: {asked.model} has {len(kinds)} kinds of layers, say --heads and --mask")
    if problem.phase not in phases:
        raise BadInput(f"{algorithm} is written for {', '.join(phases)}, not {problem.phase}")
    program, have = phases[problem.phase], f"MPI has {ranks}"
    check_dtypes(problem)
    check_memory_of(problem)
    job = job_from(said, ranks, have)
    if job.size != ranks:
        raise BadInput(f"the mesh uses {job.size} ranks: {have}; all are timed")
    meshes = job.meshes(program.axes, program.equal)
    if not meshes:
        raise BadInput(f"{algorithm} runs over mesh axes {', '.join(program.axes)}, got {asked.mesh}")
    if asked.layout == "auto":
        problem = replace(problem, layout=program.tries(problem)[0])
    reasons: list[Inapplicable] = []
    for mesh in sorted(meshes, key=lambda mesh: max(mesh.axes[axis] for axis in program.axes)):
        try:
            schedule = written(f"{algorithm} on {mesh}", program, problem, mesh)
        except Inapplicable as reason:
            reasons.append(reason)
            continue
        if ":" in algorithm:
            check(schedule)
        return Chosen(algorithm, schedule)
    raise ScheduleError(f"{algorithm} cannot run: {reasons[0]}")


def _typed(asked: Asked) -> Asked:
    """The same with the types of state and gradients said."""
    from algorithms.options import DTYPES

    state = asked.state_dtype or state_of(DTYPES.get(asked.dtype, asked.dtype))
    return replace(asked, state_dtype=state, grad_dtype=asked.grad_dtype or state)
