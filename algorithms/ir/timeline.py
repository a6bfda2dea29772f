"""A timeline: when each op of a schedule ran, and what it moved; the simulator and the executor both write it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from algorithms.ir.schedule import Op, Schedule

Floats = NDArray[np.float64]
SCHEMA = "ringloom.timeline/1"


@dataclass(frozen=True, eq=False)
class Timeline:
    """When each op ran, in seconds from the start.

    Attributes:
        clock: "simulated" or "measured".
        ops: id, kind, stream and name of each op, in program order.
        start, end: (ops, ranks); or (ops, 1), the earliest start and the latest end of any rank, where `extent`
            is true.
        spent: seconds from start to end of each op, by "stream kind", summed on the rank where that is most; where
            `extent` is true and they are known.
        sent: bytes each rank sent in each op, (ops, ranks); or (ops, 2), least and most, where `extent` is true.
        sent_in_all: bytes each rank sent in all ops, (ranks,); empty where `sent` tells it.
        flop: of each op on all ranks together; empty where not counted.
        busy: seconds each rank's compute stream worked, (ranks,). busy_by: of the average rank, as planned, by what
            they go to; empty where not known.
        peak: most bytes of live values on each rank, (ranks,).
        link_bytes: bytes carried, by class of link; `hot_links` are the busiest links by share of their capacity.
        makespan: when the last op ended.
        about: the mesh, ways, cluster, problem and whatever else the run echoes.
    """

    clock: str
    ops: tuple[Mapping[str, Any], ...]
    start: Floats
    end: Floats
    sent: NDArray[np.int64]
    busy: Floats
    peak: NDArray[np.int64]
    makespan: float
    extent: bool = False
    link_bytes: Mapping[str, int] = field(default_factory=dict)
    hot_links: tuple[Mapping[str, Any], ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    flop: tuple[float, ...] = ()
    spent: Mapping[str, float] = field(default_factory=dict)
    busy_by: Mapping[str, float] = field(default_factory=dict)
    sent_in_all: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def ranks(self) -> int:
        """How many ranks ran."""
        return len(self.busy)

    @property
    def compute(self) -> float:
        """Seconds of compute on the rank that has most."""
        return float(self.busy.max(initial=0.0))

    @property
    def exposed(self) -> float:
        """Seconds in which the rank with most compute waited for communication or for others."""
        return max(0.0, self.makespan - self.compute)

    def sent_per_rank(self) -> NDArray[np.int64]:
        """Bytes each rank sent in all; where no more than extents are known, the least and the most."""
        return self.sent_in_all if len(self.sent_in_all) else np.asarray(self.sent.sum(0))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline as JSON; the file appears whole or not at all.

        Raises:
            ValueError: it cannot be written.
        """
        record = {"schema": SCHEMA, **{k: _plain(v) for k, v in vars(self).items()}}
        with whole(path) as file:
            file.write(json.dumps(record) + "\n")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Timeline:
        """Read a timeline file.

        Raises:
            ValueError: not a timeline file of a known schema.
        """
        try:
            record = json.loads(Path(path).read_text())
            if not isinstance(record, dict) or record.pop("schema", None) != SCHEMA:
                raise ValueError("it names no such schema")
            for name, kind in (("start", float), ("end", float), ("busy", float), ("sent", int), ("peak", int)):
                record[name] = np.asarray(record[name], dtype=kind)
            record["flop"] = tuple(record.get("flop", ()))
            record["sent_in_all"] = np.asarray(record.get("sent_in_all", []), dtype=np.int64)
            return cls(**record | {"ops": tuple(record["ops"]), "hot_links": tuple(record["hot_links"])})
        except (OSError, LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueError(f"{path} is not a timeline file ({SCHEMA}): {error}") from error


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Open a file that takes its name only when all of it is written; a device or a pipe is written as it stands.

    Raises:
        ValueError: it cannot be written.
    """
    target = Path(os.path.realpath(path))  # a link stays, and the file that it names is replaced
    partial = target.with_name(f"{target.name[:50]}.{os.getpid()}.part")
    try:
        if _is_device(Path(path)):
            with open(path, "w", encoding="utf-8") as file:
                yield file
            return
        with partial.open("w", encoding="utf-8") as file:
            yield file
        partial.replace(target)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _is_device(path: Path) -> bool:
    """Whether nothing may be renamed over a path: a device, a pipe, or a name such as /dev/stdout for an open file."""
    root = path.absolute().parts[1:3]
    return (root[0] in ("dev", "proc") and root[-1] != "shm") or (path.exists() and not path.is_file())


def line(op: Op) -> dict[str, Any]:
    """How a timeline names an op."""
    stream = f"{'x'.join(op.over)}{f'/{op.lane}' if op.lane else ''}" if op.over else "compute"
    return {"id": op.id, "kind": op.kind, "stream": stream, "name": f"{op.kind} {op.id}"}


def lines(schedule: Schedule) -> tuple[dict[str, Any], ...]:
    """How a timeline names the ops of a schedule."""
    return tuple(line(op) for op in schedule.ops)


def _plain(x: Any) -> Any:
    return x.tolist() if isinstance(x, np.ndarray) else dict(x) if isinstance(x, Mapping) else x
