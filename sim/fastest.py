"""The fastest way to run a frozen program that no process will change; all ways give the same bits.

Folded, where at least half of the ranks are like others; then by max-plus, where flows never hold each other back,
or else event by event.
"""

from collections.abc import Callable
from dataclasses import replace

from sim.apart import rates
from sim.engine import Progress, run
from sim.fold import fold
from sim.maxplus import recur
from sim.program import Frozen
from sim.spans import Record, Spans
from sim.stall import StallError

Ahead = Callable[[Frozen], None]
SMALL = 1 << 13  # (op, rank) pairs that are run before anything else could be tried


def run_fastest(
    frozen: Frozen, record: Record = "full", progress: Progress | None = None, ahead: Ahead | None = None
) -> Spans:
    """Run `frozen` and return when each op ran, by class of ranks where it was folded.

    Args:
        ahead: is given what is to be run event by event, before it is.
    Raises:
        StallError: when nothing can ever end.
    """
    if len(frozen.bare.kind) * frozen.ranks <= SMALL:
        return run(frozen, record=record, progress=progress)
    folded = fold(frozen)
    if folded is None:
        return _run_whole(frozen, record, progress, ahead)
    try:
        spans = _run_whole(folded.frozen, record, progress, ahead)
    except StallError:  # who waits for whom is told in the ranks' own names
        return run(frozen, record=record, progress=progress)
    return replace(
        spans,
        link_bytes=spans.link_bytes[folded.links.of],
        rank_class=folded.ranks.of if spans.has_times else None,
        how=f"folded to {folded.frozen.ranks} of {frozen.ranks} ranks, {spans.how}",
    )


def _run_whole(frozen: Frozen, record: Record, progress: Progress | None, ahead: Ahead | None) -> Spans:
    """Run without folding."""
    rate = rates(frozen)
    if rate is not None:
        return recur(frozen, rate, record, progress)
    if ahead is not None:
        ahead(frozen)
    return run(frozen, record=record, progress=progress)
