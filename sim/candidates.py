"""Candidates: what there is to try, each algorithm on every mesh of the job and in every layout worth trying."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from algorithms.ir import Attention, Inapplicable, Mesh, Program, Schedule
from algorithms.ir.job import Job
from algorithms.ir.mesh import JOB_AXES
from algorithms.own import traced
from sim.frameworks.rules import Framework
from sim.frameworks.settings import Setting, setting

Programs = Mapping[str, Mapping[str, Program]]  # by algorithm, then by phase
Kinds = Sequence[tuple[int, Attention]]  # how many layers there are of each kind, and the problem of one


class Refusal(NamedTuple):
    """An algorithm that cannot run, on which mesh (None: on any), and why."""

    algorithm: str
    mesh: Mapping[str, int] | None
    reason: str


@dataclass(frozen=True)
class Candidate:
    """An algorithm on one mesh, with the tokens dealt in one way.

    Attributes:
        kinds: of a whole model, how many layers there are of each kind, and the problem of one; empty: one layer.
        alike: meshes with the axes in other orders that were found to cost the same on the cluster.
    """

    algorithm: str
    program: Program
    mesh: Mesh
    problem: Attention
    kinds: Kinds = ()
    alike: tuple[Mesh, ...] = ()

    def __str__(self) -> str:
        return f"{self.algorithm} on {self.mesh}, {self.problem.layout}"

    def schedule(self) -> Schedule:
        """Trace the algorithm; one from a file of the user's is held to the laws.

        Raises:
            Inapplicable: it cannot serve this problem on this mesh.
            ScheduleError: it is wrong.
        """
        if ":" not in self.algorithm:
            return self.program(self.problem, self.mesh)
        return traced(str(self), self.program, self.problem, self.mesh)

    @property
    def layers(self) -> list[tuple[int, Candidate]]:
        """The same for each kind of layers, and how many there are; itself where it is one layer."""
        dealt = ((number, replace(problem, layout=self.problem.layout)) for number, problem in self.kinds)
        return [(number, replace(self, problem=problem, kinds=())) for number, problem in dealt] or [(1, self)]

    def setting(self, framework: Framework, mesh: Mesh | None = None) -> Setting | str:
        """What to type in a framework, on its mesh or another, or why that has not all its layers."""
        found: Setting | str = ""
        for _, layer in self.layers:
            found = setting(framework, self.algorithm, layer.problem, mesh or self.mesh)
            if isinstance(found, str):
                return found
        return found

    def orders(self, job: Job) -> Iterator[Candidate]:
        """The same on meshes of the same sizes with the axes in another order, which place its groups elsewhere.

        In decoding tp may also be the slower axis, as where frameworks carve the ranks that share keys out of tp's.
        """
        program = self.program
        decode = program.phase == "decode"
        for mesh in job.orders(self.mesh, program.axes, nested=program.nested, tp_outside=decode):
            yield replace(self, mesh=mesh)


def layouts(program: Program, problem: Attention, asked: str) -> tuple[str, ...]:
    """Layouts worth trying: the one asked for, or those that the program knows to suit the mask."""
    return program.tries(problem) if asked == "auto" else (asked,)


def meshes(program: Program, job: Job) -> list[Mesh]:
    """The meshes to try: the one typed, or every split of the sequence's ranks over the program's axes.

    Raises:
        Inapplicable: the mesh typed has other axes.
    """
    found = job.meshes(program.axes, program.equal)
    if not found:
        typed = [axis for axis in job.axes or () if axis not in JOB_AXES]
        raise Inapplicable(f"it runs over mesh axes {', '.join(program.axes)}, not {', '.join(typed) or 'none'}")
    return found


def candidates(
    programs: Programs, problem: Attention, job: Job, layout: str = "auto", kinds: Kinds = ()
) -> tuple[list[Candidate], list[Refusal]]:
    """List what to try, axes in the order in which the algorithm names them, and the algorithms that have nothing."""
    found: list[Candidate] = []
    refused: list[Refusal] = []
    for name, phases in programs.items():
        program = phases.get(problem.phase)
        if program is None:
            refused.append(Refusal(name, None, f"it is written for {', '.join(phases)}, not {problem.phase}"))
            continue
        try:
            found += [
                Candidate(name, program, mesh, replace(problem, layout=kind), kinds)
                for mesh in meshes(program, job)
                for kind in layouts(program, problem, layout)
            ]
        except Inapplicable as reason:
            refused.append(Refusal(name, job.axes, str(reason)))
    return found, refused


def of_framework(framework: Framework, listed: list[Candidate], job: Job) -> tuple[list[Candidate], list[Refusal]]:
    """Those that a framework has, in the orders of axes in which it has them, and why it has not the others."""
    found: list[Candidate] = []
    refused: list[Refusal] = []
    known = {rule.algorithm for rule in framework.rules}
    for one in (order for first in listed for order in (first, *first.orders(job))):
        typed = one.setting(framework)
        if isinstance(typed, str):
            refused.append(Refusal(one.algorithm, one.mesh.axes if one.algorithm in known else None, typed))
        else:
            found.append(one)
    return found, refused
