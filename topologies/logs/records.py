"""What logs of communication benchmarks say: one record a measured message size, nothing in it assumed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Record:
    """One measurement.

    Attributes:
        test: a collective (all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter);
            sendrecv, around a ring; of two ranks bw, bibw and latency; or what the tool calls it.
        nbytes: as nccl-tests counts a message: what a rank reduces, has gathered, or gives away in all; None: not said.
        seconds: of one call; None where only a rate is printed.
        file, line: where it stands.
        ranks, nodes: that took part; None: not said.
        busbw: bytes/s as printed (of bw and bibw: what is sent, in all directions); None: not printed.
        in_place: whether a rank's result replaced its input.
        each: nbytes counts what a rank has for one other: times the ranks it is as above.
        algorithm: ring, tree, nvls, ... as printed, in lower case; "" where not said.
        devices: the two of a pair, where the text says them.
        call: names the call among several ranks' files; its seconds on one rank include waiting for the others.
        on_host: whether the messages lay in the memory of hosts.
    """

    test: str
    nbytes: int | None
    seconds: float | None
    file: str
    line: int
    ranks: int | None = None
    nodes: int | None = None
    busbw: float | None = None
    in_place: bool = False
    each: bool = False
    algorithm: str = ""
    devices: tuple[int, int] | None = None
    call: tuple[str | int, ...] | None = None
    on_host: bool = False


@dataclass(frozen=True)
class Log:
    """What one file holds.

    Attributes:
        file: where it was read.
        format: what was read, such as `nccl-tests`.
        records: in the order printed.
        notes: what was mended, skipped or is odd, one line each.
        gpus: names of GPUs as printed, sorted.
        rank: whose file it is, where each rank writes one.
    """

    file: str
    format: str
    records: tuple[Record, ...]
    notes: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    rank: int | None = None


def factor(test: str, ranks: int) -> float:
    """Return busbw / algbw of a test, as nccl-tests defines them.

    References:
        github.com/NVIDIA/nccl-tests doc/PERFORMANCE.md.
    """
    if test == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if test in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        return (ranks - 1) / ranks
    return 1.0


@dataclass
class Skipped:
    """Lines that were passed over, by reason."""

    lines: dict[str, list[int]] = field(default_factory=dict)

    def add(self, reason: str, line: int) -> None:
        """Note a line."""
        self.lines.setdefault(reason, []).append(line)

    def notes(self) -> list[str]:
        """Return a line a reason, with where it is so."""
        return [f"skipped {_at(numbers)}: {reason}" for reason, numbers in self.lines.items()]


def _at(numbers: Sequence[int], most: int = 4) -> str:
    """Write line numbers, the first few of many."""
    shown = ", ".join(map(str, numbers[:most]))
    more = len(numbers) - most
    return f"line{'s' * (len(numbers) > 1)} {shown}" + (f" and {more} more" if more > 0 else "")


def one_of(values: Iterable[int]) -> int | None:
    """Return the value that all have, None where they differ or there are none."""
    found = set(values)
    return found.pop() if len(found) == 1 else None
