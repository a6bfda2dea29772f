"""What to set, as `compare` prints and `--json` gives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sim.candidates import Candidate
from sim.frameworks.rules import Framework, Rule, frameworks
from sim.frameworks.settings import Setting


class Settings(NamedTuple):
    """Of a candidate: what to type in the frameworks that have it, and why others that know its algorithm have not."""

    known: tuple[Setting, ...]
    lacking: tuple[str, ...]


def settings(candidate: Candidate, framework: Framework | None = None) -> Settings:
    """Look a candidate up in all frameworks, or in one."""
    known, lacking = [], []
    for one in [framework] if framework else frameworks():
        tried = [candidate.setting(one, mesh) for mesh in (candidate.mesh, *candidate.alike)]
        fits = [typed for typed in tried if not isinstance(typed, str)]
        if fits:
            known.append(fits[0])
        elif any(_of(rule, candidate) for rule in one.rules):
            lacking.append(str(tried[0]))
    return Settings(tuple(known), tuple(lacking))


def _of(rule: Rule, candidate: Candidate) -> bool:
    """Whether a rule is of a candidate's algorithm and phase."""
    return rule.algorithm == candidate.algorithm and candidate.problem.phase in rule.phases


def record(found: Settings) -> list[dict[str, Any]]:
    """What to type, as `--json` has it."""
    return [one._asdict() for one in found.known]


def lines(candidates: Sequence[Candidate], framework: Framework | None = None) -> Iterator[tuple[str, str]]:
    """What to set for each candidate, the best first, as pairs of a lead and a text; last, which of them nobody has."""
    nobodys = []
    for number, one in enumerate(candidates):
        found = settings(one, framework)
        if found.known:
            yield "  ", str(one)
        elif number == 0:
            near = "".join(f"; {reason}" for reason in found.lacking)
            yield "  ", f"{one}: research only, no framework known here has it like this{near}"
        else:
            nobodys.append(str(one))
        yield from ((f"    {typed.framework}  ", typed.set + _also(typed)) for typed in found.known)
    if nobodys:
        yield "  ", f"research only, of those that tie: {'; '.join(nobodys)}"


def _also(typed: Setting) -> str:
    """The version that a setting is for, and what else to know, in brackets."""
    recalled = f"recalled: {typed.recalled}" if typed.recalled else ""
    return f"  [{'; '.join(part for part in (typed.version, typed.note, recalled) if part)}]"
