"""The options that ask what if, of `compare` and `simulate`: compute times that vary, and the pace of collectives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from algorithms.options import as_record, parse_count
from sim.commands import faulty

if TYPE_CHECKING:
    from algorithms.ir import Schedule
    from sim.faults import Fault
    from sim.jitter import Jitter
    from sim.pacing import Pacing
    from sim.quantiles import Quantiles
    from sim.routing import Routing
    from sim.simulate import Site

_Command = TypeVar("_Command", bound=Callable[..., Any])
REPEATS = 10
MOST_REPEATS = 1000


@dataclass(frozen=True)
class Wishes:
    """What these options said, as typed; None or () where nothing was said."""

    jitter: str | None
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
    click.option(
        "--jitter",
        metavar="SHARE|FILE",
        help="Compute times vary: by a relative deviation, as 0.05, or by measured quantiles in a JSON file.",
    ),
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
    """What is not as planned; `jitters` has one a repeat, None where compute times do not vary.

    Attributes:
        seeds: of the hash that chooses paths, one a repeat; empty where none does.
    """

    faults: tuple[Fault, ...]
    reroute_delay: float
    jitters: tuple[Jitter | None, ...]
    pacing: Pacing
    seeds: tuple[int, ...]

    @property
    def runs(self) -> dict[str, Any]:
        """What `compare` and `repeated` take; the seeds are their site's."""
        return {name: value for name, value in vars(self).items() if name != "seeds"}


def what_if(wishes: Wishes, broken: faulty.Faulty, routing: Routing) -> WhatIf:
    """Read the options; a routing that has seeds is repeated with one after the other.

    Raises:
        ValueError: one is written wrongly, or would be ignored.
    """
    jitters = _jitters(wishes, routing.varies)
    seeds = routing.seeds(len(jitters)) if routing.varies else ()
    return WhatIf(*broken.read(), jitters, _pacing(wishes), tuple(seeds))


def used(asked: WhatIf, wishes: Wishes, routing: str | None, site: Site) -> WhatIf:
    """Leave out the seeds where they changed nothing: no pair of ranks that sent had equal paths.

    Args:
        routing: as typed.
    Raises:
        ValueError: a hash was asked for, or that it be repeated.
    """
    if not asked.seeds or site.network.choices[0]:
        return asked
    if routing is not None or (wishes.repeats is not None and wishes.jitter is None):
        option = "--repeats" if routing is None else f"--routing {routing}"
        raise ValueError(f"{option} changes nothing: on {site.name} no flow has equal paths")
    return replace(asked, seeds=())


def _pacing(wishes: Wishes) -> Pacing:
    from sim.pacing import Pacing

    barrier, drift = (
        tuple(name for part in text.split(",") if (name := part.strip())) for text in (wishes.barrier, wishes.drift)
    )
    chunks, channels = (1 if n is None else n for n in (wishes.chunks, wishes.channels))
    return Pacing(chunks, wishes.chunk_size or 0, channels, barrier, drift)


def ignored(asked: WhatIf, ways: Mapping[str, str], used: Collection[str]) -> list[str]:
    """The options that change nothing where no other collectives than these are used."""
    pacing = asked.pacing
    named = (("ways", ways), ("barrier", pacing.barrier), ("drift", pacing.drift))
    found = [f"--{option} {kind}" for option, kinds in named for kind in kinds if kind not in used]
    if pacing.cuts and not used:
        found.append("--chunks" if pacing.chunks > 1 else "--chunk-size")
    return found


def check_used(asked: WhatIf, ways: Mapping[str, str], schedule: Schedule) -> None:
    """Refuse what this schedule would ignore.

    Raises:
        ValueError: a way, a barrier or chunks for collectives that it has not.
    """
    used = {op.kind for op in schedule.ops if op.stream is not None and op.kind != "permute"}
    for option in ignored(asked, ways, used):
        has = ", ".join(sorted(used)) or "no collective but permute"
        raise ValueError(f"{option} changes nothing: {schedule.name} has {has}")


def _jitters(wishes: Wishes, routing_varies: bool) -> tuple[Jitter | None, ...]:
    from sim.jitter import Jitter

    if wishes.jitter is None and wishes.seed is not None:
        other = "; the hash has its own, --routing ecmp:seed=N" if routing_varies else ": nothing varies here"
        raise ValueError(f"--seed is for --jitter{other}")
    repeats = _repeats(wishes.repeats, wishes.jitter is not None or routing_varies)
    if wishes.jitter is None:
        return (None,) * repeats
    seed, law = 1 if wishes.seed is None else wishes.seed, _law(wishes.jitter)
    return tuple(Jitter(law, seed, repeat) for repeat in range(repeats))


def _repeats(asked: int | None, varies: bool) -> int:
    """How many runs there are to be."""
    if not varies:
        if asked is not None:
            raise ValueError("--repeats is for --jitter and --routing ecmp: nothing varies here")
        return 1
    repeats = REPEATS if asked is None else asked
    if not 1 <= repeats <= MOST_REPEATS:
        raise ValueError(f"--repeats must be 1 to {MOST_REPEATS}, got {repeats}")
    return repeats


def _law(text: str) -> float | Quantiles:
    """What the factors are drawn by: what is no number names a file."""
    from sim.quantiles import read

    try:
        return float(text)
    except ValueError:
        return read(text)


def assumptions(asked: WhatIf, layers: int) -> list[str]:
    """What the answer rests on besides."""
    found = faulty.assumptions(asked.faults, asked.reroute_delay)
    if asked.jitters[0] is not None:
        found.append(asked.jitters[0].assumption())
        if layers > 1:
            found.append("repeats of a model: one layer's, times the layers; layers that vary by themselves even out")
    return found


def describe(asked: WhatIf) -> dict[str, str]:
    """What is not as planned: a fact a line."""
    from sim import pacing as paces

    pace = paces.describe(asked.pacing.describe())
    return faulty.describe(asked.faults) | ({"pace": pace} if pace else {})


def varying_text(asked: WhatIf) -> str:
    """What varies, and how often it is run; empty where nothing does."""
    jitter, seeds, repeats = asked.jitters[0], asked.seeds, len(asked.jitters)
    causes = [] if jitter is None else [f"jitter {jitter}, seed {jitter.seed}"]
    if seeds:
        causes.append("routing ecmp, " + (f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"))
    return f"{repeats} repeat{'s' if repeats > 1 else ''} with {' and '.join(causes)}" if causes else ""


def record(asked: WhatIf) -> dict[str, Any]:
    """What was asked, as `--json` gives it."""
    jitter = asked.jitters[0]
    return {
        "faults": [str(fault) for fault in asked.faults],
        "pacing": asked.pacing.describe(),
        "jitter": jitter and jitter.describe() | {"repeats": len(asked.jitters)},
    }
