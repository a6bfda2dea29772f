"""The options of `ringloom simulate` that ask what if: faults, compute times that vary, and the pace of collectives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from algorithms.options import as_record, parse_count
from sim.commands import faulty

if TYPE_CHECKING:
    from algorithms.ir import Schedule
    from sim.faults import Fault
    from sim.jitter import Jitter
    from sim.pacing import Pacing
    from sim.routing import Routing

_Command = TypeVar("_Command", bound=Callable[..., Any])
REPEATS = 10
MOST_REPEATS = 1000


@dataclass(frozen=True)
class Wishes:
    """What these options said, as typed; None or () where nothing was said."""

    jitter: float | None
    seed: int | None
    repeats: int | None
    chunks: int | None
    chunk_size: int | None
    channels: int | None
    barrier: str
    drift: str


def _size(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else parse_count(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_OPTIONS = (
    click.option("--jitter", type=float, metavar="SHARE", help="Relative deviation of compute times, as 0.05."),
    click.option("--seed", type=int, metavar="N", help="Of the jitter.  [default: 1]"),
    click.option("--repeats", type=int, metavar="N", help=f"Runs with jitter, or ECMP.  [default: {REPEATS}]"),
    click.option("--chunks", type=int, metavar="N", help="Cut each message of a collective into N, a pipeline."),
    click.option("--chunk-size", callback=_size, metavar="BYTES", help="The same by bytes, as 512K."),
    click.option("--channels", type=int, metavar="N", help="Chunks under way side by side.  [default: 1]"),
    click.option("--barrier", default="", metavar="OP,...", help="Collectives kept in step, round by round."),
    click.option("--drift", default="", metavar="all_to_all", help="Go on when the own send is done."),
)


def what_if_options(command: _Command) -> _Command:
    """Give a click command these options, as one argument `wishes`."""
    return as_record("wishes", Wishes, _OPTIONS)(command)


@dataclass(frozen=True)
class WhatIf:
    """Faults, jitter and routing of a run; `jitters` has one a repeat, None where nothing but the routing varies."""

    faults: tuple[Fault, ...]
    reroute_delay: float
    jitters: tuple[Jitter | None, ...]
    pacing: Pacing
    routing: Routing


def what_if(wishes: Wishes, broken: faulty.Faulty, routing: Routing) -> WhatIf:
    """Read the options; a routing that has seeds is repeated with one after the other.

    Raises:
        ValueError: one is written wrongly, or would be ignored.
    """
    return WhatIf(*broken.read(), _jitters(wishes, routing.varies), _pacing(wishes), routing)


def _pacing(wishes: Wishes) -> Pacing:
    from sim.pacing import Pacing

    barrier, drift = (
        tuple(name for part in text.split(",") if (name := part.strip())) for text in (wishes.barrier, wishes.drift)
    )
    chunks, channels = (1 if n is None else n for n in (wishes.chunks, wishes.channels))
    return Pacing(chunks, wishes.chunk_size or 0, channels, barrier, drift)


def check_used(asked: WhatIf, ways: Mapping[str, str], schedule: Schedule) -> None:
    """Refuse what this schedule would ignore.

    Raises:
        ValueError: a way, a barrier or chunks for collectives that it has not.
    """
    used = {op.kind for op in schedule.ops if op.stream is not None and op.kind != "permute"}
    has = f"{schedule.name} has {', '.join(sorted(used)) or 'no collective but permute'}"
    pacing = asked.pacing
    for option, kinds in (("ways", ways), ("barrier", pacing.barrier), ("drift", pacing.drift)):
        for kind in kinds:
            if kind not in used:
                raise ValueError(f"--{option} {kind} changes nothing: {has}")
    if pacing.cuts and not used:
        raise ValueError(f"--chunks changes nothing: {has}")


def _jitters(wishes: Wishes, routing_varies: bool) -> tuple[Jitter | None, ...]:
    from sim.jitter import Jitter

    if wishes.jitter is None and wishes.seed is not None:
        other = "; the hash has its own, --routing ecmp:seed=N" if routing_varies else ": nothing varies here"
        raise ValueError(f"--seed is for --jitter{other}")
    varies = wishes.jitter is not None or routing_varies
    repeats = repeats_of(wishes.repeats, varies, "--jitter and --routing ecmp")
    if wishes.jitter is None:
        return (None,) * repeats
    seed = 1 if wishes.seed is None else wishes.seed
    return tuple(Jitter(wishes.jitter, seed, repeat) for repeat in range(repeats))


def repeats_of(asked: int | None, varies: bool, what: str) -> int:
    """How many runs there are to be.

    Raises:
        ValueError: an absurd number, or several where nothing varies; what: it is for.
    """
    if not varies:
        if asked is not None:
            raise ValueError(f"--repeats is for {what}: nothing varies here")
        return 1
    repeats = REPEATS if asked is None else asked
    if not 1 <= repeats <= MOST_REPEATS:
        raise ValueError(f"--repeats must be 1 to {MOST_REPEATS}, got {repeats}")
    return repeats


def assumptions(asked: WhatIf) -> list[str]:
    """What the answer rests on besides."""
    found = faulty.assumptions(asked.faults, asked.reroute_delay)
    if asked.jitters[0] is not None:
        found.append("jitter: each compute op on each rank takes its time by a lognormal factor of mean 1")
    return found


def describe(asked: WhatIf, times: list[float]) -> dict[str, str]:
    """What is not as planned, and how much the time varies: a fact a line."""
    from sim.jitter import Band
    from topologies.units import format_seconds

    found = faulty.describe(asked.faults)
    if pacing := asked.pacing.describe():
        from sim import pacing as paces

        found["pace"] = paces.describe(pacing)
    if causes := _varying(asked):
        band = Band.of(times)
        found["varies"] = (
            f"median {format_seconds(band.median)}, p10 {format_seconds(band.p10)}, p90 {format_seconds(band.p90)} "
            f"over {len(times)} repeat{'s' * (len(times) > 1)} with {' and '.join(causes)}; the middle one is shown"
        )
    return found


def _varying(asked: WhatIf) -> list[str]:
    """What differs from repeat to repeat, in words."""
    jitter, routing = asked.jitters[0], asked.routing
    causes = [] if jitter is None else [f"jitter {jitter.spread:g}, seed {jitter.seed}"]
    if routing.varies:
        seeds = routing.seeds(len(asked.jitters))
        causes.append("routing ecmp, " + (f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"))
    return causes


def record(asked: WhatIf, times: list[float]) -> dict[str, Any]:
    """The same as `--json` gives it."""
    from sim.jitter import Band

    found: dict[str, Any] = {
        "faults": [str(fault) for fault in asked.faults],
        "pacing": asked.pacing.describe(),
    }
    if not _varying(asked):
        return found
    band = {f"{name}_s": value for name, value in Band.of(times)._asdict().items()} | {"times_s": times}
    jitter, routing = asked.jitters[0], asked.routing
    if jitter is not None:
        found["jitter"] = {"spread": jitter.spread, "seed": jitter.seed, **band}
    if routing.varies:
        found["routing_repeats"] = {"seeds": routing.seeds(len(times)), **band}
    return found
