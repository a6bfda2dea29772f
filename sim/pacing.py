"""Pacing: how the rounds of a collective follow each other: in how many chunks, on how many channels, in step or not.

A way says what is sent in which round. A rank goes on to its next round when its own sends and receives of this one
are done. A *barrier* after each round keeps all in step, at the price of messages without bytes. An all-to-all whose
receives are all posted beforehand may *drift*: a rank goes on when its own send is done.

A collective in *chunks* is a pipeline: stage k of a chunk waits for its own stage k - 1 and for stage k of the chunk
before it on its channel, and for nothing else; channels run side by side. Rounds in which ranks idle, and latencies,
are so filled by other chunks. Received chunks have room however many they are. Bytes are the same in all cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from algorithms import unknown
from algorithms.ir import Inapplicable
from algorithms.ir.expr import Ints
from algorithms.ir.mesh import Axes, Mesh
from algorithms.ways import COLLECTIVES
from sim.rows import Row, row

MOST_CHUNKS = 1024
MOST_DRIFTING = 128  # ranks: each has a stream of its own then


class Sends(NamedTuple):
    """A transfer: rank r sends nbytes[r] to dst[r] (-1: to none)."""

    round: int
    channel: int
    dst: Ints
    nbytes: Row
    combine: bool


@dataclass(frozen=True)
class Pacing:
    """How the rounds of all collectives but permute follow each other.

    Attributes:
        chunks: how many nearly equal shares each message is cut into. chunk_nbytes: or the bytes of a share, at
            most; 0: not said.
        channels: how many chunks are in one stage side by side.
        barrier: the collectives whose ranks wait for each other after every round.
        drift: those whose ranks do not even wait for what they receive.
    """

    chunks: int = 1
    chunk_nbytes: int = 0
    channels: int = 1
    barrier: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.chunks <= MOST_CHUNKS:
            raise ValueError(f"--chunks must be 1 to {MOST_CHUNKS}, got {self.chunks}")
        if self.chunk_nbytes < 0 or (self.chunk_nbytes and self.chunks > 1):
            raise ValueError("--chunks and --chunk-size say the same: give one of the two")
        if self.channels < 1:
            raise ValueError(f"--channels must be at least 1, got {self.channels}")
        if self.channels > 1 and not self.cuts:
            raise ValueError(f"--channels {self.channels} needs --chunks or --chunk-size to be shared out")
        for kind in self.barrier:
            if kind not in COLLECTIVES:
                raise ValueError(unknown("collective", kind, COLLECTIVES, use="--barrier"))
        self._check_drift()

    def _check_drift(self) -> None:
        if set(self.drift) - {"all_to_all"}:
            raise ValueError(f"--drift is for all_to_all: others pass on what they received, got {self.drift[0]}")
        if set(self.drift) & set(self.barrier):
            raise ValueError("all_to_all cannot both drift and be kept in step: --drift or --barrier")
        if self.drift and self.cuts:
            raise ValueError("--drift sends whole messages: not with --chunks or --chunk-size")

    def check_way(self, kind: str, way: str, ranks: int) -> None:
        """Refuse to let a way drift that cannot, or too many ranks."""
        if kind in self.drift and way == "ring":
            raise ValueError(f"--drift {kind}: all_to_all by ring passes on what it received")
        if kind in self.drift and ranks > MOST_DRIFTING:
            raise ValueError(f"--drift is for at most {MOST_DRIFTING} ranks, got {ranks}")

    @property
    def cuts(self) -> bool:
        """Whether messages are cut."""
        return self.chunks > 1 or self.chunk_nbytes > 0

    def count(self, rounds: list[list[Sends]]) -> int:
        """How many chunks a collective of these rounds is carried out in."""
        most = max((int(one.nbytes.at().max()) for group in rounds for one in group), default=0)
        wanted = -(-most // self.chunk_nbytes) if self.chunk_nbytes else self.chunks
        if wanted > MOST_CHUNKS:
            raise Inapplicable(
                f"--chunk-size {self.chunk_nbytes} cuts {most} bytes into more than {MOST_CHUNKS} chunks"
            )
        return max(1, min(wanted, most))

    def describe(self) -> dict[str, Any]:
        """What differs from the plain pace, as results echo it."""
        return {name: value for name, value in vars(self).items() if value != getattr(PLAIN, name)}


PLAIN = Pacing()


def share(rounds: list[list[Sends]], chunk: int, chunks: int) -> list[list[Sends]]:
    """The rounds of one chunk of several: whole bytes, which add up to all."""
    return [[one._replace(nbytes=_cut(one.nbytes, chunk, chunks)) for one in group] for group in rounds]


def _cut(nbytes: Row, chunk: int, chunks: int) -> Row:
    sizes = nbytes.at()
    return row(np.floor_divide(sizes * (chunk + 1), chunks) - np.floor_divide(sizes * chunk, chunks))


def sends_of(rounds: list[list[Sends]], sender: int) -> Iterator[tuple[Ints, Row]]:
    """What one rank sends in all rounds, as transfers of its own."""
    for one in (one for group in rounds for one in group if one.dst[sender] >= 0):
        dst, nbytes = np.full(len(one.dst), -1, np.int64), np.zeros(len(one.dst))
        dst[sender] = one.dst[sender]
        nbytes[sender] = np.broadcast_to(one.nbytes.at(), len(one.dst))[sender]
        yield dst, row(nbytes)


def steps_of_barrier(mesh: Mesh, over: Axes) -> Iterator[Ints]:
    """Who sends to whom in each step of a dissemination barrier of every group: 1, 2, 4, ... places on.

    References:
        Hensgen, Finkel, Manber. "Two algorithms for barrier synchronization." 1988.
    """
    groups = mesh.groups(over)
    distance, members = 1, groups.shape[1]
    while distance < members:
        dst = np.empty(mesh.size, dtype=np.int64)
        dst[groups] = np.roll(groups, -distance, axis=1)
        yield dst
        distance *= 2


def describe(pacing: Mapping[str, Any]) -> str:
    """A pace for people, "" where it is plain."""
    found = [f"{value} {name}" for name, value in pacing.items() if name in ("chunks", "channels")]
    if "chunk_nbytes" in pacing:
        found.append(f"chunks of {pacing['chunk_nbytes']} bytes at most")
    if "barrier" in pacing:
        found.append(f"a barrier after each round of {', '.join(pacing['barrier'])}")
    if "drift" in pacing:
        found.append(f"{', '.join(pacing['drift'])} drifts: a rank goes on when its own send is done")
    return ", ".join(found)
