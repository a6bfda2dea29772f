"""The options that ask what if, of `compare` and `simulate`: compute times that vary, and the pace of collectives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
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
    from sim.quantiles import Quantiles

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
    click.option("--repeats", type=int, metavar="N", help=f"Runs with jitter.  [default: {REPEATS}]"),
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
    """What is not as planned; `jitters` has one a repeat, or a single None."""

    faults: tuple[Fault, ...]
    reroute_delay: float
    jitters: tuple[Jitter | None, ...]
    pacing: Pacing


def what_if(wishes: Wishes, broken: faulty.Faulty) -> WhatIf:
    """Read the options.

    Raises:
        ValueError: one is written wrongly, or would be ignored.
    """
    return WhatIf(*broken.read(), _jitters(wishes), _pacing(wishes))


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


def _jitters(wishes: Wishes) -> tuple[Jitter | None, ...]:
    from sim.jitter import Jitter

    if wishes.jitter is None:
        for name in ("seed", "repeats"):
            if getattr(wishes, name) is not None:
                raise ValueError(f"--{name} is for --jitter: nothing varies here")
        return (None,)
    repeats = REPEATS if wishes.repeats is None else wishes.repeats
    if not 1 <= repeats <= MOST_REPEATS:
        raise ValueError(f"--repeats must be 1 to {MOST_REPEATS}, got {repeats}")
    seed, law = 1 if wishes.seed is None else wishes.seed, _law(wishes.jitter)
    return tuple(Jitter(law, seed, repeat) for repeat in range(repeats))


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


def jitter_text(asked: WhatIf) -> str:
    """What varies, and how often it is run; empty where nothing does."""
    jitter, repeats = asked.jitters[0], len(asked.jitters)
    if jitter is None:
        return ""
    return f"{repeats} repeat{'s' if repeats > 1 else ''} with jitter {jitter}, seed {jitter.seed}"


def record(asked: WhatIf) -> dict[str, Any]:
    """What was asked, as `--json` gives it."""
    jitter = asked.jitters[0]
    return {
        "faults": [str(fault) for fault in asked.faults],
        "pacing": asked.pacing.describe(),
        "jitter": jitter and jitter.describe() | {"repeats": len(asked.jitters)},
    }
