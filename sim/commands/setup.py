"""What `compare` and `simulate` share: the simulator's own options, and the cluster and job that they run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from algorithms import unknown
from algorithms.options import Asked, as_record, job_from, model_from, problems_from
from sim.commands.outputs import fault

if TYPE_CHECKING:
    from algorithms.ir import Attention
    from algorithms.ir.job import Job
    from algorithms.models import Model
    from sim.result import Errors, Result
    from sim.simulate import Site
    from topologies.options import Named

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Wanted:
    """What the simulator's own options said."""

    kernel: str | None
    launch: str | None
    assume: str
    compute_error: float
    comm_error: float
    placement: str
    routing: str | None
    per: str
    json: bool
    trace: str | None
    timeline: str | None


_OPTIONS = (
    click.option("--kernel", metavar="NAME", help="Attention kernel.  [default: the fastest published for the GPU]"),
    click.option(
        "--launch",
        metavar="NAME",
        help="How kernels are started: queued, eager (each waits for the host) or captured.  [default: queued]",
    ),
    click.option(
        "--assume",
        default="",
        metavar="NAME=NUMBER,...",
        help="Change assumptions, by the names printed before them: merge_nbytes=12,comm_launch=8us,nvlink=0.9.",
    ),
    click.option("--compute-error", type=float, default=0.10, show_default=True, help="Stated error of compute time."),
    click.option(
        "--comm-error",
        type=float,
        default=0.25,
        show_default=True,
        help="Stated error of exposed communication.",
    ),
    click.option(
        "--placement",
        default="identity",
        show_default=True,
        metavar="NAME",
        help="Which GPU runs which rank: identity, node, rail, snake, shuffle:SEED or list:0,8,1,9,...",
    ),
    click.option(
        "--routing",
        metavar="NAME",
        help="Which of its equal paths a flow takes: static (the first), ecmp[:seed=N] (by a hash of both ends), ideal "
        "(split equally over all), adaptive (by the load of the others; on a dragonfly also a detour).  "
        "[default: the fabric's: ecmp on trees, adaptive on a dragonfly, else static]",
    ),
    click.option(
        "--per",
        default="layer",
        show_default=True,
        metavar="layer|model",
        help="Time one layer, or all of --model.",
    ),
    click.option("--json", is_flag=True, help="Print JSON on stdout, and nothing else there."),
    click.option("--trace", metavar="FILE", help="Write the (best) run as trace-event JSON for Perfetto."),
    click.option("--timeline", metavar="FILE", help="Write the (best) run as a timeline file."),
)


def simulator_options(command: _Command) -> _Command:
    """Give a click command the simulator's options, as one argument `wanted`."""
    return as_record("wanted", Wanted, _OPTIONS)(command)


@dataclass(frozen=True)
class Setup:
    """A problem, the job that serves it and the site that runs it.

    Attributes:
        problem: of one layer, of those that see most.
        kinds: how many layers the model has of each kind, and the problem of one.
    """

    model: Model
    problem: Attention
    kinds: list[tuple[int, Attention]]
    job: Job
    site: Site
    ways: dict[str, str]
    errors: Errors
    per: str
    placement: str
    layout: str

    @property
    def costs(self) -> dict[str, float]:
        """The numbers of the cost model by name, in SI units; of an idealised cluster none."""
        return self.site.machine.costs.values() if any(self.site.machine.names) else {}

    @property
    def layers(self) -> int:
        """Layers that the answer is about."""
        return self.model.layers if self.per == "model" else 1

    @property
    def kinds_text(self) -> str:
        """The kinds of layers that the model has, with their masks."""
        each = " and ".join(f"{number} with mask {problem.mask.short}" for number, problem in self.kinds)
        return f"{self.model.name} has {each}"

    def assumptions(self, results: Iterable[Result]) -> list[str]:
        """The numbers that no source is cited for and some result rests on, of the graph and of the cost model."""
        from topologies.links import LINK_KINDS

        touched = {name for one in results for name in one.rests_on}
        unused = {kind for kind in LINK_KINDS if kind not in touched}
        about = {
            text: text.partition(":")[0].partition(".")[0] for text in self.site.graph.graph.get("assumptions", ())
        }
        return [
            *(text for text, what in about.items() if what not in unused),
            *self.site.routing.assumptions(),
            *self.model.assumption(self.problem.phase),
            *self.site.machine.assumptions(self.problem, touched),
            self.errors.assumption(),
        ]


def set_up(asked: Asked, wanted: Wanted, named: Named) -> Setup:
    """Check all options and make ready to simulate.

    Raises:
        ValueError: an option is wrong; the message names it.
    """
    _check_files(wanted)
    if wanted.per not in ("layer", "model"):
        raise ValueError(unknown("--per", wanted.per, ("layer", "model")))
    if wanted.per == "model" and asked.model is None:
        raise ValueError("--per model needs --model, which says how many layers there are")
    kinds, model = problems_from(asked), model_from(asked)

    from algorithms.ways import parse
    from sim.assume import assume
    from sim.cluster_costs import with_costs_of
    from sim.costs import Costs
    from sim.kernel_table import KERNELS
    from sim.placement import placed
    from sim.result import Errors
    from sim.routing import parse as routing_from
    from sim.simulate import Site

    routing = routing_from(wanted.routing) if wanted.routing is not None else None
    if wanted.kernel is not None and wanted.kernel not in KERNELS:
        raise ValueError(unknown("kernel", wanted.kernel, KERNELS))
    errors = Errors(wanted.compute_error, wanted.comm_error).check()
    ways = parse(asked.ways)
    graph, used = named.build()
    job = job_from(asked, used, f"cluster {graph.graph['name']} has {used} GPUs")
    launch = "queued" if wanted.launch is None else wanted.launch
    costs = assume(with_costs_of(Costs(kernel=wanted.kernel).launched(launch), graph), wanted.assume)
    site = Site(graph, costs, placed(wanted.placement, graph, job.size), routing)
    if site.routing.name == "ideal" and len(site.graph) == len(graph):
        raise ValueError(f"--routing ideal changes nothing: {site.name} has no switches for equal paths")
    said = {"--kernel": wanted.kernel, "--launch": wanted.launch, "--assume": wanted.assume.strip()}
    for option, value in said.items():
        if value and not any(site.machine.names):
            why = (
                "has costs that were measured"
                if site.machine.is_measured
                else "is idealised, its GPUs have no model name"
            )
            raise ValueError(f"{option} {value} changes nothing: {site.name} {why}")
    return Setup(model, kinds[0][1], kinds, job, site, ways, errors, wanted.per, wanted.placement, asked.layout)


def _check_files(wanted: Wanted) -> None:
    """Refuse an output that could not be written, before the work."""
    for name, path in (("--trace", wanted.trace), ("--timeline", wanted.timeline)):
        if path is not None and (wrong := fault(path)):
            raise ValueError(f"{name} {path} {wrong}")
    if wanted.trace and wanted.timeline and os.path.abspath(wanted.trace) == os.path.abspath(wanted.timeline):
        raise ValueError(f"--trace and --timeline name one file, {wanted.trace}: they are two")
