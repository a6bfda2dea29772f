"""Numbers: the assumptions of the cost model by the names that `--assume` takes, and which of them a run rests on."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from algorithms.ir.schedule import Schedule
from algorithms.ops import is_free
from topologies.units import us

TIME, SHARE, BYTES = "time", "share", "count of bytes"
QUEUED = "kernels queued in a stream"
REDUCING = ("all_reduce", "reduce_scatter")  # collectives that combine what arrives
ATTENTION = ("attend", "attend_backward")


class Launch(NamedTuple):
    """A way of starting kernels: seconds that one takes, and where that comes from."""

    seconds: float
    source: str


LAUNCHES = {
    "queued": Launch(3 * us, QUEUED),
    "eager": Launch(6 * us, "eager, each kernel waits for the host: 3 us more, proposed beside 4 to 6 us of a CPU"),
    "captured": Launch(1.5 * us, "kernels captured in a graph: 1.5 us less each, proposed beside 1.8 us on B200"),
}
KERNELS = {"attend_launch": 1, "decode_launch": 2, "glue_launch": 1, "comm_launch": 1}  # that a launch starts


class Number(NamedTuple):
    """A number of the cost model: what kind of number it is, what it says, and where its default comes from."""

    kind: str
    says: str
    source: str


NUMBERS = {
    "attend_launch": Number(TIME, "to launch an attention kernel", QUEUED),
    "decode_launch": Number(TIME, "to launch a split-KV decode and the kernel that combines it", QUEUED),
    "glue_launch": Number(TIME, "to launch any other kernel", QUEUED),
    "comm_launch": Number(TIME, "to launch a communication op", QUEUED),
    "memory_share": Number(SHARE, "of the memory bandwidth reached by copies", "measured 2900 of 3350 GB/s on H100"),
    "decode_memory_share": Number(SHARE, "of the memory bandwidth reached by decode attention", "an estimate"),
    "merge_nbytes": Number(
        BYTES,
        "bytes per element moved by a merge op",
        "eager passes, 24 to 38, chosen beside the ring measured on 8 x H800; a fused kernel about 12",
    ),
    "reduce_nbytes": Number(
        BYTES, "bytes for each that arrives moved by a reduction inside a collective", "a fused kernel"
    ),
    "plain_share": Number(SHARE, "of the peak reached by attention without a published kernel speed", "an estimate"),
    "nvlink": Number(SHARE, "of its bandwidth reached", "the collective library's own model"),
    "xgmi": Number(SHARE, "of its bandwidth reached", "the collective library's own model, 48 of 64 GB/s on MI300X"),
    "ici": Number(SHARE, "of its bandwidth reached", "taken at its word"),
    "pcie": Number(SHARE, "of its bandwidth reached", "a host copy, 55 of 63 GB/s"),
    "socket": Number(SHARE, "of its bandwidth reached", "taken at its word: a topology gives what is reached"),
    "nic": Number(SHARE, "of its bandwidth reached", "measured 48.5 of 50 GB/s"),
    "fabric": Number(SHARE, "of its bandwidth reached", "taken at its word"),
    "link": Number(SHARE, "of its bandwidth reached", "taken at its word"),
}


def number_text(name: str, value: float) -> str:
    """A value as people read it, and as `--assume` takes it."""
    kind = NUMBERS[name].kind
    return f"{value / us:g} us" if kind == TIME else f"{value:.4g}" if kind == BYTES else f"{100 * value:.4g}%"


def assumption(
    name: str, value: float, default: float, is_said: bool, launch: str = "queued", measured: str = ""
) -> str:
    """A number as a line: its name, its value, and where that comes from."""
    about = NUMBERS[name]
    source = LAUNCHES[launch].source if name in KERNELS else about.source
    if is_said or measured:
        source = f"{'as you said' if is_said else measured}; default {number_text(name, default)}"
    return f"{name}: {number_text(name, value)} {about.says} ({source})"


def rests_on(schedule: Schedule, carried: Collection[str]) -> tuple[str, ...]:
    """Names of the numbers that can touch a schedule's time.

    Args:
        carried: classes of link that carried something.
    """
    kinds = {op.kind for op in schedule.ops}
    communicates = any(op.stream is not None for op in schedule.ops)
    decode = schedule.problem.phase == "decode"
    attends = bool(kinds & {*ATTENTION})
    reduces = bool(kinds & {*REDUCING})
    glue = any(not (op.stream or op.kind in ATTENTION or is_free(op)) for op in schedule.ops)
    used = {
        "attend_launch": attends and not decode,
        "decode_launch": attends and decode,
        "glue_launch": glue,
        "comm_launch": communicates,
        "memory_share": glue or reduces or (attends and not decode),
        "decode_memory_share": attends and decode,
        "merge_nbytes": "merge" in kinds,
        "reduce_nbytes": reduces,
        "plain_share": attends,
    }
    return tuple(name for name in NUMBERS if used.get(name, name in carried))
