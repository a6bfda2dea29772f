"""What a run will take, said before it when that is much: nobody should wait, or run out of memory, unwarned."""

from __future__ import annotations

import os
from collections.abc import Callable

from sim.program import Frozen
from topologies.units import format_bytes, format_seconds

LONG = 10.0  # seconds
MUCH = 0.25  # share of the machine's memory
SECONDS_PER_PAIR = 1.5e-6  # of a compiled run event by event, an op on a rank; measured 0.3 to 1.8 us on a shared core
CROWD = 8.0  # streams squared that add as much again; measured at 15, 31 and 63 streams a rank on machines of 8
SLOT_NBYTES, HOP_NBYTES = 140, 8  # of state a (stream, rank); of routes a hop of a flow
Notice = Callable[[str], None]


def seconds(frozen: Frozen) -> float:
    """Seconds that a run event by event takes, within a factor of five."""
    return len(frozen.bare.kind) * frozen.ranks * SECONDS_PER_PAIR


class CrowdedError(ValueError):
    """A run in which so many flows share links that it would take longer than one has patience for."""


def crowding(streams: int) -> float:
    """How many times as long a run takes where a rank sends on so many streams at once.

    The more flows share a link, the more often one of them ends, and the longer it takes to share it out anew.
    """
    return max(1.0, streams**2 / CROWD)


def check_crowd(frozen: Frozen, streams: int, most: float) -> None:
    """Refuse a run that is long because it is crowded.

    Raises:
        CrowdedError: it would take more than `most` seconds.
    """
    takes = seconds(frozen) * crowding(streams)
    if takes > most and crowding(streams) > 1:
        raise CrowdedError(
            f"{streams} streams a rank share links: it takes roughly {format_seconds(takes)} to simulate, and is left "
            f"out where that is over {format_seconds(most)}; name it alone"
        )


def nbytes(frozen: Frozen, full: bool) -> int:
    """Bytes that it holds at once."""
    ops, streams, hops = len(frozen.bare.kind), len(frozen.bare.length), frozen.bare.route.shape[1]
    kept = 2 * ops * (frozen.ranks if full else 1) * 8
    state = streams * frozen.ranks * (SLOT_NBYTES + 16 * hops)
    return int(len(frozen.rows) * frozen.ranks * 8 + kept + state + frozen.bare.route.size * HOP_NBYTES)


def memory() -> int:
    """Bytes of memory of this machine; 0 where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0


def warning(frozen: Frozen, full: bool, times: float = 1) -> str:
    """A line about a run, or several, that is long or large; "" where it is neither."""
    takes, holds, has = seconds(frozen) * times, nbytes(frozen, full), memory()
    if takes <= LONG and not (has and holds > MUCH * has):
        return ""
    of = f" of {format_bytes(has)}" if has else ""
    ops = f"{len(frozen.bare.kind):,} ops on {frozen.ranks:,} ranks"
    return f"this run is long: {ops}, roughly {format_seconds(takes)} and {format_bytes(holds)}{of} of memory"
