"""The `check` command from its options to its exit status, the same on every rank."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algorithms import unknown
from algorithms.ir.layout import layout
from algorithms.ir.mask import CAUSAL, FULL, Mask
from algorithms.ir.problem import PHASES
from algorithms.masks import mask_from
from algorithms.options import DTYPES, algorithms_from
from algorithms.ways import parse
from executor import launch
from executor.cases import Asked, Case, cases, shared
from executor.check import Known, in_one_process, prove, refuse_unrunnable
from executor.environment import mpi_library
from executor.errors import BadInput
from executor.gpu.choice import Choice, chosen, library, runner
from executor.inputs import read_inputs
from executor.interpret import kernel_called
from executor.outputs import output
from executor.report import Report, Setting

if TYPE_CHECKING:
    from mpi4py import MPI

Options = Mapping[str, Any]
_SCORES = ("softcap", "alibi", "sinks")
_SIZES = ("heads", "kv_heads", "head_dim", "head_dim_v", "shared_kv", "seq", "cached", "new", "batch")


def proved(names: Sequence[str], local: int | None, options: Options) -> int:
    """Prove what was asked for, on all ranks of MPI or in this process; return the exit status.

    Raises:
        BadInput: before anything runs.
    """
    comm = None if local else launch.world()
    ranks = local or (comm.Get_size() if comm else 1)
    algorithms, ways = read(lambda: algorithms_from(",".join(names))), ways_from(options["ways"], options["native"])
    choice = chosen(options["device"], options["kernel"], options["transport"], comm)
    kernel = read(lambda: kernel_called(choice.kernel))
    asked = _asked(options)
    arrays, have = None, f"{ranks} in one process" if local else f"MPI has {ranks}"
    if options["inputs"] is not None:
        arrays, asked = read_inputs(options["inputs"], asked, shared(asked, ranks, have).dp)
    todo, others = cases(algorithms, asked, ranks, have)
    if comm is not None:
        launch.alike(comm, "was asked for something else than", _text(todo, options))
    known = Known(options["seed"], arrays, getattr(kernel, "HALF_WEIGHTS", False))
    refuse_unrunnable(todo, known)
    timeline = _timeline(options, todo, comm)
    setting = _setting(options, choice, ranks, comm)
    report = Report(setting, todo, options["as_json"], dict.fromkeys(others), silent=bool(comm and comm.Get_rank()))
    return _run(todo, known, report, choice, comm, ways, timeline)


def _run(
    todo: Sequence[Case],
    known: Known,
    report: Report,
    choice: Choice,
    comm: MPI.Comm | None,
    ways: Mapping[str, str] | None,
    timeline: Path | None,
) -> int:
    if comm is None:
        run = in_one_process(choice.kernel, ways, library(choice))
    else:
        from executor.overmpi import Everyone, warm_all

        run = Everyone(comm, choice.kernel, ways, timeline, runner(choice))
        warm_all(comm, choice.kernel, [p for case in todo for p in case.problems])
    for row in prove(todo, known, run):
        report.add(row)
    if not report.rows:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in report.inapplicable)
        raise BadInput(f"nothing to check: {reasons}")
    status = report.end()
    return comm.bcast(status, root=0) if comm else status


def _text(todo: Sequence[Case], options: Options) -> str:
    """What all ranks must have been asked for alike."""
    asked = [(case.algorithm, str(case.mesh), case.layout, case.problems) for case in todo]
    return repr((asked, *(options[name] for name in ("seed", "kernel", "device", "transport", "ways", "timeline"))))


def _asked(options: Options) -> Asked:
    dealt = options["layout"]
    phases = PHASES if options["phase"] == "all" else (options["phase"],)
    if phases[0] not in PHASES:
        raise BadInput(unknown("phase", phases[0], PHASES, other="all"))
    masks = read(lambda: _masks(options["mask"], options["lengths"]))
    layouts = () if dealt == "all" else (read(lambda: layout(dealt, 1, 1)).kind,)
    dtypes = {name: DTYPES.get(options[name], options[name]) for name in ("dtype", "kv_dtype", "state_dtype")}
    sizes: dict[str, Any] = {name: options[name] for name in (*_SIZES, *_SCORES, "tp", "dp", "mesh")}
    return Asked(phases, masks, layouts, **sizes | dtypes)


def _masks(said: str | None, lengths: str | None) -> tuple[Mask, ...]:
    """The masks that were said: none is a few of each kind, both are those that have no number."""
    if said == "both" and lengths is None:
        return FULL, CAUSAL
    return () if said is None and lengths is None else (mask_from(said or "causal", lengths),)


def ways_from(said: str | None, native: bool) -> Mapping[str, str] | None:
    """The ways that collectives are to be carried out in, None: MPI's own; "default" is the default way of each.

    Raises:
        BadInput: both are asked for, or there is no such way.
    """
    if said is None:
        return None
    if native:
        raise BadInput(f"--native and --ways {said}: give one or the other")
    chosen: dict[str, str] = read(lambda: parse("" if said == "default" else said))
    return chosen


def _timeline(options: Options, todo: Sequence[Case], comm: MPI.Comm | None) -> Path | None:
    if options["timeline"] is None:
        return None
    count = sum(len(case.problems) for case in todo)
    if comm is None:
        raise BadInput("--timeline needs ranks that run at once: use mpiexec in place of --local")
    if count != 1:
        raise BadInput(
            f"--timeline is of one case, these are {count}: say --phase, --mesh, --mask, --layout, --heads and --seq"
        )
    return output("--timeline", options["timeline"])


def _setting(options: Options, choice: Choice, ranks: int, comm: MPI.Comm | None) -> Setting:
    hosts, mpi = [socket.gethostname()], "in one process"
    if comm is not None:
        hosts = sorted(set(comm.allgather(hosts[0])))
        mpi = mpi_library()
    ways = "by definition" if comm is None else "native"
    return Setting(ranks, hosts, mpi, choice, options["ways"] or ways, options["seed"])


def read(function: Callable[[], Any]) -> Any:
    """What a parser of ours returns; what it refuses is bad input."""
    try:
        return function()
    except (LookupError, ValueError) as error:
        raise BadInput(error.args[0] if error.args else str(error)) from None
