"""Settings: what to type in a framework for a schedule, or why it cannot be had there."""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from algorithms.ir import Attention, Mesh
from algorithms.ir.mask import FULL
from algorithms.ir.mesh import JOB_AXES
from sim.frameworks.rules import Framework, Rule

SCORES = ("softcap", "alibi", "sinks")


class Setting(NamedTuple):
    """What to type in a framework, which version that is for, what else to know, and who says so."""

    framework: str
    version: str
    set: str
    note: str
    recalled: str
    source: str


def setting(framework: Framework, algorithm: str, problem: Attention, mesh: Mesh) -> Setting | str:
    """Return what to type for an algorithm on a mesh, or why the framework does not have it."""
    rules = [rule for rule in framework.rules if rule.algorithm == algorithm]
    if not rules:
        return f"{framework.name} does not have it"
    reasons: list[list[str]] = []
    for rule in rules:
        reasons.append(list(lacks(rule, problem, mesh)))
        if not reasons[-1]:
            typed = _Fill().vformat(rule.set, (), sizes(problem, mesh))
            return Setting(framework.name, rule.version, typed, rule.note, rule.recalled, rule.source)
    nearest = [why[0] for why in reasons if len(why) == min(map(len, reasons))]
    return f"{framework.name}: {'; or '.join(dict.fromkeys(nearest))}"


def lacks(rule: Rule, problem: Attention, mesh: Mesh) -> Iterator[str]:
    """Say why a rule does not hold for a problem on a mesh: phase, mask, scores, limits, layout, order of axes."""
    if problem.phase not in rule.phases:
        yield f"for {' and '.join(rule.phases)}, not {problem.phase}"
    for wanted in wants(problem):
        if wanted not in (*rule.masks, *rule.scores):
            yield rule.lacks.get(wanted, f"it is not known to take {wanted}")
    known = sizes(problem, mesh)
    yield from (limit.says for limit in rule.limits if not value(limit.needs, known))
    if rule.layouts and balanced(problem) and problem.layout not in rule.layouts:
        yield f"it deals tokens {' or '.join(rule.layouts)}, not {problem.layout}"
    placed = [axis for axis, size in mesh.axes.items() if size > 1 and axis in rule.order]
    wanted_order = [axis for axis in rule.order if axis in placed]
    if placed != wanted_order:
        yield f"it places the axes as {mesh_text(rule.order, mesh)}"


def wants(problem: Attention) -> list[str]:
    """What a problem asks of a framework: the parts of its mask, and what changes its scores; ragged is no mask."""
    mask = problem.mask
    parts = {"full": not mask.causal, "window": mask.window, "documents": mask.documents and not problem.ragged}
    named = [name for name, there in parts.items() if there] or ["causal"]
    return [*named, *(name for name in SCORES if getattr(problem, name))]


def balanced(problem: Attention) -> bool:
    """Whether the layout decides how evenly the work is shared out."""
    return problem.mask != FULL and problem.phase != "decode"


def mesh_text(order: Sequence[str], mesh: Mesh) -> str:
    """A mesh with its axes in another order, as `--mesh` takes it."""
    axes = [axis for axis in order if axis in mesh.axes and (mesh.axes[axis] > 1 or axis not in JOB_AXES)]
    return "--mesh " + ",".join(f"{axis}={mesh.axes[axis]}" for axis in axes)


def sizes(problem: Attention, mesh: Mesh) -> dict[str, Any]:
    """The names that limits and settings may use.

    The problem's fields, the mesh's axes, tp, dp and cp, whether the mask is causal, and what divides every document.
    """
    tp, dp = mesh.axes.get("tp", 1), mesh.axes.get("dp", 1)
    job = {"tp": tp, "dp": dp, "cp": mesh.size // (tp * dp)}
    mask = {"causal": problem.mask.causal, "documents_by": math.gcd(*problem.mask.documents)}
    return {**problem.describe(), **job, **mask, **mesh.axes}


def value(expression: str, known: Mapping[str, Any]) -> Any:
    """Evaluate an expression of a file of this folder; nobody else's come here."""
    return eval(expression, {"__builtins__": {}}, dict(known))


class _Fill(string.Formatter):
    """Fill braces with the values of the expressions in them."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return value(field_name, kwargs), field_name
