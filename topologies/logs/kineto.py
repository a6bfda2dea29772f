"""Traces of PyTorch's profiler (Kineto): kernels of NCCL, each with its duration and, in newer ones, its message.

On one rank a collective's kernel also waits for the ranks that come late, so that several ranks' files are read
together (topologies.logs.together); of one file alone the least of equal calls is the best that can be said.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from topologies.files.facts import FileError
from topologies.garbage import uncollected
from topologies.logs.records import Log, Record
from topologies.units import us

FORMAT = "PyTorch trace (Kineto)"
MOST_VALUES = 6_000_000  # of a JSON text
_KEY = re.compile(r'"traceEvents"\s{0,20}:')
_KERNEL = re.compile("nccl(?:Dev)?Kernel")
_ALGORITHM = re.compile("_(RING|TREE|COLLNET|NVLS_TREE|NVLS|PAT)(?=_|[(]|$)")
_TESTS = {
    "allreduce": "all_reduce",
    "_allgather_base": "all_gather",
    "allgather": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "all_to_all": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_allv": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
_ITEMSIZE = {
    **dict.fromkeys(("byte", "char", "bool", "float8_e4m3fn", "float8_e5m2", "signed char", "unsigned char"), 1),
    **dict.fromkeys(("half", "bfloat16", "short"), 2),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("double", "long"), 8),
}


def looks_like(text: str) -> bool:
    """Tell whether a text is a trace."""
    return text.lstrip()[:1] == "{" and _KEY.search(text) is not None


def read(text: str, file: str) -> Log:
    """Return the collectives of one rank's trace; calls keep what matches them with other ranks'.

    Raises:
        FileError: it is no JSON, or has no kernel whose message is known.
    """
    if sum(map(text.count, ",[{")) > MOST_VALUES:
        raise FileError(file, f"holds more than {MOST_VALUES:,} values: keep the events of NCCL alone")
    with uncollected():
        try:
            whole = json.loads(text)
        except ValueError as error:  # of a whole number of thousands of digits too
            place = error.lineno if isinstance(error, json.JSONDecodeError) else None
            said = error.msg if isinstance(error, json.JSONDecodeError) else "a number is too long"
            raise FileError(file, f"is no whole JSON: {said}", place) from None
        except RecursionError:
            raise FileError(file, "is nested too deep") from None
        return _log(whole, file)


def _log(whole: Any, file: str) -> Log:
    """Return what a trace holds."""
    events = whole.get("traceEvents") if isinstance(whole, dict) else None
    if not isinstance(events, list):
        raise FileError(file, "is no trace: traceEvents is no list")
    kernels = [event for event in events if _is_kernel(event)]
    if not kernels:
        raise FileError(file, "holds no kernel of NCCL: profile the GPU's activities too")
    about = whole.get("distributedInfo")
    rank = _whole(about, "rank") if isinstance(about, dict) else None
    skipped = Counter[str]()
    records = list(_records(kernels, file, skipped))
    said = [f"skipped {count} of {len(kernels)} kernels: {reason}" for reason, count in skipped.items()]
    if not records:
        raise FileError(file, "; ".join(["no kernel of NCCL can be used", *said][:3]))
    notes = said if rank is not None else [*said, "the rank is not said: taken for 0"]
    return Log(file, FORMAT, tuple(records), tuple(notes), _gpus(whole), rank or 0)


def _is_kernel(event: Any) -> bool:
    """Tell whether an event is a kernel of NCCL that ran."""
    if not isinstance(event, dict) or event.get("ph") != "X" or event.get("cat", "kernel") != "kernel":
        return False
    name = event.get("name")
    return isinstance(name, str) and _KERNEL.match(name) is not None


def _records(kernels: list[dict[str, Any]], file: str, skipped: Counter[str]) -> Iterator[Record]:
    """Yield the records in the order in which the kernels began."""
    number: dict[tuple[str | int, ...], int] = defaultdict(int)
    for event in sorted(kernels, key=lambda event: _number(event.get("ts")) or 0.0):
        args = event.get("args")
        found = _message(args if isinstance(args, dict) else {}, skipped)
        seconds = (_number(event.get("dur")) or 0.0) * us
        if found is None:
            continue
        if seconds <= 0:
            skipped["no duration"] += 1
            continue
        test, nbytes, ranks, group = found
        key = group, test, nbytes
        number[key] += 1
        said = _ALGORITHM.search(event["name"][:300])
        algorithm = said[1].lower() if said else ""
        yield Record(test, nbytes, seconds, file, 0, ranks, busbw=None, algorithm=algorithm, call=(*key, number[key]))


def _message(args: Mapping[str, Any], skipped: Counter[str]) -> tuple[str, int, int, str] | None:
    """Return test, bytes, ranks and process group of a kernel, None where they are not said."""
    name, dtype = args.get("Collective name"), args.get("dtype")
    taken, given, ranks = (_whole(args, key) for key in ("In msg nelems", "Out msg nelems", "Group size"))
    if not isinstance(name, str) or taken is None:
        skipped['the message is not said ("Collective name", "In msg nelems"): newer PyTorch does'] += 1
        return None
    test = _TESTS.get(name.lower())
    if test is None or not isinstance(dtype, str) or dtype.lower() not in _ITEMSIZE:
        skipped["a collective or a type that is not known"] += 1
        return None
    nbytes = (given or 0 if test == "all_gather" else taken) * _ITEMSIZE[dtype.lower()]
    if not ranks or ranks < 2 or not nbytes:
        skipped["0 bytes, or a group of one rank"] += 1
        return None
    group = args.get("Process Group Ranks", args.get("Process Group Name", ""))
    return test, nbytes, ranks, str(group)[:200]


def _whole(about: Mapping[str, Any], key: str) -> int | None:
    """Return a whole number, None where there is none that is not negative."""
    value = about.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**60 else None


def _number(value: Any) -> float | None:
    """Return a number that is finite, None of anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e18 else None


def _gpus(whole: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the GPUs that the trace lists."""
    listed = whole.get("deviceProperties")
    names = [one.get("name") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return tuple(sorted({name[:60] for name in names if isinstance(name, str) and name.isprintable()}))
