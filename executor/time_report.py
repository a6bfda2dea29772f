"""What `time` prints and writes: the times of all runs, where they went, and where they were made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from algorithms.ir.environment import UNSTEADY
from algorithms.ir.timeline import Timeline, line
from executor import mpi
from executor.check import described
from executor.chosen import Chosen
from executor.report import version
from executor.timing import Runs

SCHEMA = "ringloom.time/1"
ms = 1e-3


@dataclass(frozen=True)
class Timed:
    """An algorithm's runs, on rank 0."""

    chosen: Chosen
    runs: Runs
    kernel: str
    ways: Mapping[str, str] | None
    environment: Mapping[str, Any]
    warmup: int

    def parts(self) -> list[tuple[str, str, int, float]]:
        """Stream, kind, number of ops and seconds of all ops of one sort, on the rank where they are most."""
        schedule, spent = self.chosen.schedule, self.runs.spent
        sorts: dict[tuple[str, str], list[int]] = {}
        for op in schedule.ops:
            sorts.setdefault((line(op)["stream"], op.kind), []).append(op.id)
        found = [(*sort, len(ops), float(spent[ops].sum(0).max())) for sort, ops in sorts.items()]
        return sorted(found, key=lambda part: -part[3])

    def timeline(self) -> Timeline:
        """The run nearest the median, and about all of them."""
        number, runs, schedule = self.runs.middle, self.runs, self.chosen.schedule
        about = {
            "ways": "native" if self.ways is None else dict(self.ways),
            "kernel": self.kernel,
            "schedule": self.chosen.record(self.kernel, self.ways),
            "environment": dict(self.environment),
            "runs": runs.seconds.tolist(),
            "repeats": len(runs.seconds),
            "warmup": self.warmup,
            "run": number,
            "waited": runs.waited[number].tolist(),
            "spent": runs.spent.tolist(),
        }
        return mpi.as_timeline(schedule, runs.start[number], runs.end[number], runs.sent, about)

    def text(self) -> str:
        """The answer for people."""
        p10, median, p90 = self.runs.band
        mesh, problem, about = self.chosen.mesh, self.chosen.problem, self.environment
        ways = "native" if self.ways is None else ", ".join(f"{k}={v}" for k, v in self.ways.items()) or "default ways"
        before, after = (about.get(name) or ["?"] for name in ("load_before", "load_after"))
        many = len(about["hosts"])
        lines = [
            f"{self.chosen.algorithm} {problem.phase} on {mesh}, {problem.layout}: {described(problem)}",
            f"{mesh.size} rank{'s' * (mesh.size > 1)} on {many} host{'s' * (many > 1)} ({', '.join(about['hosts'])}), "
            f"{about['pinned']}, {about['cpu']}, {about['mpi']}, kernel {self.kernel}, collectives {ways}; "
            f"load {before[0]} before, {after[0]} after",
            f"{len(self.runs.seconds)} runs after {self.warmup}: median {median / ms:.4g} ms "
            f"(p10 {p10 / ms:.4g}, p90 {p90 / ms:.4g})",
        ]
        if p90 > UNSTEADY * p10:
            lines.append(f"unsteady: p90 is {p90 / p10:.2g} times p10; something else is running here")
        wide = max(len(f"{stream} {kind}") for stream, kind, _, _ in self.parts())
        lines.append(f"  {'stream and op':<{wide}}  ops  median ms, waits for others included  share")
        for stream, kind, count, seconds in self.parts():
            if seconds >= 0.001 * median:
                name = f"{stream} {kind}"
                lines.append(f"  {name:<{wide}}  {count:>3}  {seconds / ms:>37.4g}  {seconds / median:>5.1%}")
        return "\n".join(lines)

    def json(self) -> str:
        """The answer as data."""
        p10, median, p90 = self.runs.band
        schedule, spent = self.chosen.schedule, self.runs.spent
        compute = [op.id for op in schedule.ops if op.stream is None]
        about = self.environment
        record = {
            "schema": SCHEMA,
            "ringloom": version(),
            "cluster": {"ranks": schedule.mesh.size, "hosts": about["hosts"], "mpi": about["mpi"]},
            "problem": schedule.problem.describe(),
            "environment": dict(about),
            "assumptions": [],
            "results": [
                {
                    "algorithm": self.chosen.algorithm,
                    "mesh": dict(schedule.mesh.axes),
                    "layout": schedule.problem.layout,
                    "ways": "native" if self.ways is None else dict(self.ways),
                    "kernel": self.kernel,
                    "per": "layer",
                    "time_s": median,
                    "p10_s": p10,
                    "p90_s": p90,
                    "times_s": self.runs.seconds.tolist(),
                    "unsteady": p90 > UNSTEADY * p10,
                    "compute_s": float(spent[compute].sum(0).max()),
                    "sent_bytes": self.runs.sent.sum(0).tolist(),
                }
            ],
            "ops": [line(op) | {"seconds": float(np.max(spent[op.id]))} for op in schedule.ops],
            "inapplicable": [],
        }
        return json.dumps(record)
