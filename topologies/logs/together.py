"""Traces of several ranks of one job: of each call the least time over its ranks, as the last to come never waits."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from topologies.files.facts import FileError
from topologies.logs.records import Log, Record


def together(logs: Sequence[Log]) -> list[Log]:
    """Return one log of what traces of a job's ranks say.

    Calls are matched by process group, collective, size and how many of these went before. Of a rank alone, the least
    of its equal calls stands for all.

    Raises:
        FileError: two files are of one rank.
    """
    seen: dict[int | None, str] = {}
    for log in logs:
        if log.rank in seen:
            raise FileError(log.file, f"is of rank {log.rank}, as {seen[log.rank]} is: give one file a rank")
        seen[log.rank] = log.file
    notes = [f"{log.file}: {note}" if len(logs) > 1 else note for log in logs for note in log.notes]
    calls: dict[tuple[str | int, ...], list[Record]] = defaultdict(list)
    for log in logs:
        for record in log.records:
            assert record.call is not None
            calls[record.call].append(record)
    whole = [_least(some) for some in calls.values() if len(some) == some[0].ranks]
    if whole:
        if left := len(calls) - len(whole):
            notes.append(f"skipped {left} of {len(calls)} calls: not seen on all of their ranks")
        records = whole
    else:
        groups = {record.ranks for some in calls.values() for record in some}
        most = max(rank or 0 for rank in groups)
        notes.append(
            f"{len(logs)} of {most} ranks: durations include waiting for the others; of equal calls the least is taken"
        )
        records = _of_equals([_least(some) for some in calls.values()])
    gpus = sorted({gpu for log in logs for gpu in log.gpus})
    return [Log(logs[0].file, logs[0].format, tuple(records), tuple(notes), tuple(gpus))]


def _least(some: Sequence[Record]) -> Record:
    """Return the shortest of several."""
    return min(some, key=lambda record: record.seconds or 0.0)


def _of_equals(records: Sequence[Record]) -> list[Record]:
    """Return the shortest of each kind of call."""
    kinds: dict[tuple[str, int | None, int | None], list[Record]] = defaultdict(list)
    for record in records:
        kinds[record.test, record.nbytes, record.ranks].append(record)
    return [replace(_least(some), call=None) for some in kinds.values()]
