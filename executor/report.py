"""What `check` prints: who ran, a line for each program, mesh and layout, and what was not run and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import Any

from executor.cases import Case
from executor.check import Row
from executor.gpu.choice import Choice

SCHEMA = "ringloom.check/1"


@dataclass(frozen=True)
class Setting:
    """Where and how the cases ran."""

    ranks: int
    hosts: Sequence[str]
    mpi: str
    choice: Choice
    ways: str
    seed: int

    def __str__(self) -> str:
        """One line of it."""
        where = f"{self.ranks} rank{'s' * (self.ranks > 1)} on {len(self.hosts)} host{'s' * (len(self.hosts) > 1)}"
        return f"{where} ({', '.join(self.hosts)}), {self.mpi}, {self.choice}, collectives {self.ways}"


@dataclass
class Report:
    """The rows so far, printed as they come unless all is to be JSON."""

    setting: Setting
    cases: Sequence[Case]
    as_json: bool
    inapplicable: dict[tuple[str, str], None]
    silent: bool = False
    rows: list[Row] = field(default_factory=list)
    said: set[str] = field(default_factory=set)

    def add(self, row: Row) -> None:
        """Take a row in, and print it; before the first, who runs."""
        for reason in sorted(row.skipped):
            self.inapplicable[f"{row.case.algorithm} on {row.case.mesh}", reason] = None
        if not row.cases:
            return
        if not self.rows:
            self._print(str(self.setting))
            self._print(self._line("algorithm", "mesh", "layout", "cases", "error/bound", ""))
        self.rows.append(row)
        verdict = "ok" if row.exact else "FAIL"
        self._print(
            self._line(_named(row.case), str(row.case.mesh), row.case.layout, row.cases, f"{row.share:.3g}", verdict)
        )
        if not row.exact:
            self._explain(row)

    def _explain(self, row: Row) -> None:
        """Say what is wrong, the law first and then the case; a line that has been said is not said again."""
        for line in (f"    {row.fault}" * bool(row.fault), f"    {'worst' if row.fault else 'wrong'}: {row.worst}"):
            if line and line not in self.said:
                self._print(line)
            self.said.add(line)

    def end(self) -> int:
        """Print what is left to say; return the exit status."""
        wrong = sum(not row.exact for row in self.rows)
        if self.as_json and not self.silent:
            print(json.dumps(self.record()), flush=True)
        if self.inapplicable:
            self._print("inapplicable:")
        for name, reason in self.inapplicable:
            self._print(f"  {name}: {reason}")
        count = sum(row.cases for row in self.rows)
        exact = f"{count} cases, all within their bounds" if count > 1 else "1 case, within its bounds"
        self._print(f"FAIL: {wrong} of {len(self.rows)} lines" if wrong else exact)
        return 1 if wrong else 0

    def _print(self, line: str) -> None:
        if not (self.as_json or self.silent):
            print(line, flush=True)

    def record(self) -> Mapping[str, Any]:
        """The report as data."""
        return {
            "schema": SCHEMA,
            "ringloom": version(),
            "cluster": {"ranks": self.setting.ranks, "hosts": list(self.setting.hosts), "mpi": self.setting.mpi},
            "problem": {"seed": self.setting.seed, "ways": self.setting.ways} | asdict(self.setting.choice),
            "assumptions": ["error_of_bound is the worst error as a share of the bound of executor.exactness"],
            "results": [_row(row) for row in self.rows],
            "inapplicable": [{"algorithm": name, "reason": reason} for name, reason in self.inapplicable],
        }

    def _line(self, name: str, mesh: str, layout: str, cases: object, share: str, verdict: str) -> str:
        widths = [max([n, *map(len, texts)]) for n, texts in ((9, map(_named, self.cases)), (4, self._meshes()))]
        return f"{name:<{widths[0]}}  {mesh:<{widths[1]}}  {layout:<10}  {cases:>5}  {share:>11}  {verdict}".rstrip()

    def _meshes(self) -> list[str]:
        return [str(case.mesh) for case in self.cases]


def _named(case: Case) -> str:
    return case.algorithm if case.program.phase == "prefill" else f"{case.algorithm} {case.program.phase}"


def _row(row: Row) -> dict[str, Any]:
    return {
        "algorithm": row.case.algorithm,
        "phase": row.case.program.phase,
        "mesh": str(row.case.mesh),
        "layout": row.case.layout,
        "cases": row.cases,
        "error_of_bound": row.share if row.share < float("inf") else None,
        "exact": row.exact,
        "worst": row.worst,
        "fault": row.fault,
    }


def version() -> str:
    """The version installed."""
    try:
        return metadata.version("ringloom")
    except metadata.PackageNotFoundError:
        return "unknown"
