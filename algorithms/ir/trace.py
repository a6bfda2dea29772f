"""The tracer: runs a program once, for all ranks at once, and writes down its ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from algorithms import unknown
from algorithms.ir.expr import Expr, ScheduleError
from algorithms.ir.layout import KINDS, LAYOUTS
from algorithms.ir.mask import FULL
from algorithms.ir.mesh import JOB_AXES, Mesh
from algorithms.ir.problem import PHASES, Attention, Inapplicable
from algorithms.ir.schedule import ALL_HEADS, Op, Partial, Schedule, TensorType, Value
from algorithms.ir.tokens import Tokens

Results = Partial | Mapping[str, Value]
Body = Callable[["Rank", Attention], Results]
Output = tuple[TensorType, Tokens] | tuple[TensorType, Tokens, Expr]  # type, tokens, and heads if not the first input's


class Rank:
    """Every rank at once, as the program sees itself.

    Attributes:
        coords: this rank's index on each axis the algorithm names, as expressions.
        sizes: size of each such axis.
        heads: query heads of a sequence that the rank's share of the job has.
    """

    def __init__(self, mesh: Mesh, axes: Sequence[str], problem: Attention) -> None:
        self.mesh, self.problem = mesh, problem
        self.coords: tuple[Expr, ...] = tuple(mesh.coord(a) for a in axes)
        self.sizes: tuple[int, ...] = tuple(mesh.axes[a] for a in axes)
        self.heads = problem.heads // mesh.axes.get("tp", 1)
        self.ops: list[Op] = []
        self._values = 0

    def emit(
        self,
        kind: str,
        inputs: Sequence[Value],
        outputs: Sequence[Output],
        over: tuple[str, ...] = (),
        lane: int = 0,
        **params: Any,
    ) -> tuple[Value, ...]:
        """Append one op and return the values it writes; they hold the heads of its first input unless they say."""
        first, self._values = self._values, self._values + len(outputs)
        heads = inputs[0].heads if inputs else ALL_HEADS
        values = tuple([Value(first + k, *output[:2], *(output[2:] or (heads,))) for k, output in enumerate(outputs)])
        self.ops.append(Op(len(self.ops), kind, tuple(inputs), values, params, over, lane))
        return values


_ACTIVE: ContextVar[Rank] = ContextVar("the rank being traced")


def tracing() -> Rank:
    """Return the rank being traced."""
    try:
        return _ACTIVE.get()
    except LookupError:
        raise ScheduleError("ops are called inside an @spmd function, as program(problem, mesh) traces it") from None


@dataclass(frozen=True)
class Program:
    """An algorithm: calling it with a problem and a mesh traces its schedule.

    Attributes:
        axes: mesh axes it names, in the order of its coords.
        phase: prefill, train or decode: what it is written for.
        layouts: layouts worth trying where a mask must be balanced, best known first; documents is for packed ones.
        equal: axes that must have one size.
        nested: axes of which the first lies outside the next by what they are for; no other order is tried.
    """

    body: Body
    axes: tuple[str, ...]
    phase: str
    layouts: tuple[str, ...]
    equal: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The module's name, which is the algorithm's; of somebody else's file, the function's."""
        package, _, module = self.body.__module__.rpartition(".")
        return module if package == "algorithms" else self.body.__name__

    def tries(self, problem: Attention) -> tuple[str, ...]:
        """The layouts worth trying for a problem, best known first: contiguous where there is nothing to balance.

        A window is the same work for every query, and where shards are contiguous its keys are near.
        """
        if problem.ragged:
            return ("documents",)
        if problem.mask == FULL or problem.phase == "decode":
            return ("contiguous",)
        fitting = [kind for kind in self.layouts if kind != "documents" or problem.mask.documents]
        if problem.mask.window and not problem.mask.documents:
            fitting.sort(key=lambda kind: kind != "contiguous")
        return tuple(fitting) or ("contiguous",)

    def __call__(self, problem: Attention, mesh: Mesh) -> Schedule:
        """Trace the algorithm.

        Raises:
            Inapplicable: the algorithm cannot serve this problem on this mesh.
            ScheduleError: the mesh has other axes, or the program breaks a law of docs/notation.md.
        """
        if sorted(a for a in mesh.names if a not in JOB_AXES) != sorted(self.axes):
            raise ScheduleError(f"S3: {self.name} needs mesh axes {', '.join(self.axes)}, got {mesh}")
        if len({mesh.axes[axis] for axis in self.equal}) > 1:
            raise Inapplicable(f"{self.name} needs mesh axes {' and '.join(self.equal)} of one size, got {mesh}")
        _check_job(problem, mesh)
        me = Rank(mesh, self.axes, problem)
        token = _ACTIVE.set(me)
        try:
            results = _sunk(self.body(me, problem), problem)
        finally:
            _ACTIVE.reset(token)
        return Schedule(self.name, mesh, problem, tuple(me.ops), _named(self.name, results))


def _sunk(results: object, problem: Attention) -> object:
    """Merge the sinks into the state that a program returns; a program that trains has done so itself."""
    if not problem.sinks or problem.phase == "train" or not isinstance(results, Partial | Mapping):
        return results
    from algorithms.ops.sink import sink  # an op is written by what is traced here

    named = results._asdict() if isinstance(results, Partial) else dict(results)
    if not all(isinstance(named.get(name), Value) for name in Partial._fields):
        return results
    return named | sink(Partial(named["out"], named["lse"]))._asdict()


def _named(name: str, results: object) -> dict[str, Value]:
    """Refuse what is no state and no results by name, such as the None of a forgotten `return`."""
    named = results._asdict() if isinstance(results, Partial) else results
    if not isinstance(named, Mapping) or not named:
        raise ScheduleError(f"S10: {name} returns the state (out, lse), or results by name: got {_shown(results)}")
    for result, value in named.items():
        if not isinstance(value, Value):
            raise ScheduleError(f"S10: {name}: result {result} is what an op returned: got {_shown(value)}")
    return dict(named)


def _shown(x: object) -> str:
    return type(x).__name__ if x is not None else "None"


def _check_job(problem: Attention, mesh: Mesh) -> None:
    """Heads split evenly by tp (KV heads may be copied), batch by dp."""
    tp, dp = mesh.axes.get("tp", 1), mesh.axes.get("dp", 1)
    if problem.heads % tp or (problem.kv_heads % tp and tp % problem.kv_heads):
        raise Inapplicable(f"tp={tp} does not divide heads={problem.heads} and kv_heads={problem.kv_heads}")
    if problem.batch % dp:
        raise Inapplicable(f"dp={dp} does not divide batch={problem.batch}")


def spmd(
    *axes: str,
    phase: str = "prefill",
    layouts: Sequence[str] = LAYOUTS,
    equal: Sequence[str] = (),
    nested: Sequence[str] = (),
) -> Callable[[Body], Program]:
    """Make an algorithm of a function written for one rank of a mesh with these axes.

    Args:
        axes: names of mesh axes; tp and dp belong to the job.
        layouts: those worth trying under a causal mask, best first.
        equal: those of the axes that must have one size; no other mesh is tried.
        nested: those of which the first lies outside the next; no other order of them is tried.
    Raises:
        ScheduleError: no axis, one named twice or that is no name; an unknown phase or layout.
    """
    for axis in axes:
        if not isinstance(axis, str) or not axis.isidentifier() or axis in JOB_AXES:
            raise ScheduleError(f"S3: a mesh axis is a name other than {', '.join(JOB_AXES)}: got {axis!r}")
    if not axes or len(set(axes)) < len(axes):
        raise ScheduleError(f"S3: an algorithm names one or more mesh axes, each once: got {axes}")
    for axis, what in (*((axis, "of one size") for axis in equal), *((axis, "that are nested") for axis in nested)):
        if axis not in axes:
            raise ScheduleError(f"S3: axes {what} are among {', '.join(axes)}: got {axis!r}")
    if phase not in PHASES:
        raise ScheduleError(unknown("phase", str(phase), PHASES))
    for kind in layouts:
        if kind not in KINDS:
            raise ScheduleError(unknown("layout", str(kind), KINDS))
    if not layouts:
        raise ScheduleError(f"an algorithm names the layouts worth trying: some of {', '.join(KINDS)}")
    return lambda body: Program(body, axes, phase, tuple(layouts), tuple(equal), tuple(nested))
