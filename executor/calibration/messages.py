"""Messages: what an exchange with both neighbours takes by size, whether computing hides it, and what a line costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from executor.calibration.items import Item, Row, random
from executor.lower import Program, execute
from executor.lower import run as run_line

LINES = 200  # of the program of which a line's cost is a part
HIDING = 0.5  # share of a transfer that computing must hide, of any size, for a link to be called offloaded
TAG = 7
SIDE, PRODUCT = 256, 4 << 20  # of the products beside an exchange; bytes of it for each, about as long on one core


def exchanges(comm: MPI.Comm, sizes: Sequence[int]) -> Iterator[Item]:
    """Every rank sends to the next and receives from the one before, as in a hop of a ring."""
    for size in sizes:
        post, wait = _hop(comm, size)

        def call(post: Callable[[], Any] = post, wait: Callable[[Any], Any] = wait) -> None:
            wait(post())

        yield Item("exchange", {"nbytes": size}, call)


def _hop(comm: MPI.Comm, size: int) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    rank, ranks = comm.Get_rank(), comm.Get_size()
    leaving, before, after = random((size,), np.uint8), (rank - 1) % ranks, (rank + 1) % ranks

    def post() -> Any:
        came = np.empty(size, np.uint8)
        return [comm.Irecv([came, MPI.BYTE], before, TAG), comm.Isend([leaving, MPI.BYTE], after, TAG)], came

    return post, lambda posted: MPI.Request.Waitall(posted[0])


def overlaps(comm: MPI.Comm, sizes: Sequence[int]) -> Iterator[Item]:
    """An exchange, matrix products that take about as long, and both: posted before these and waited for after them."""
    a, b, c = (random((SIDE, SIDE), np.float64) for _ in range(3))
    for size in sizes:
        post, wait = _hop(comm, size)

        def compute(products: int = max(1, size // PRODUCT)) -> None:
            for _ in range(products):
                np.matmul(a, b, out=c)

        def both(
            post: Callable[[], Any] = post,
            wait: Callable[[Any], Any] = wait,
            compute: Callable[[], None] = compute,
        ) -> None:
            posted = post()
            compute()
            wait(posted)

        def alone(post: Callable[[], Any] = post, wait: Callable[[Any], Any] = wait) -> None:
            wait(post())

        for what, call in (("exchange", alone), ("compute", compute), ("both", both)):
            yield Item("overlap", {"nbytes": size, "what": what}, call)


def hidden(rows: Sequence[Row]) -> float:
    """The share of an exchange, or of a shorter computation, that the other hides; the least of all sizes.

    Of undisturbed rounds, p10: the two are told apart by a difference of times.
    """
    sizes: dict[int, dict[str, float]] = {}
    for row in rows:
        sizes.setdefault(row["nbytes"], {})[row["what"]] = row["low"]
    shares = [
        (one["exchange"] + one["compute"] - one["both"]) / min(one["exchange"], one["compute"])
        for one in sizes.values()
    ]
    return min(shares)


def lines() -> Item:
    """A program of ops that do nothing: reading slots, calling, storing and noting the time."""
    slots: list[Any] = [None] * (LINES + 1)
    calls = tuple(run_line(lambda x: (x,), [k], [k + 1], [k], slots) for k in range(LINES))
    program = Program(calls, (), slots)

    return Item("overhead", {"lines": LINES}, lambda: execute(program, time.perf_counter))


def line_seconds(rows: Sequence[Mapping[str, Any]]) -> float:
    """Seconds a line."""
    return float(rows[0]["seconds"]) / LINES
