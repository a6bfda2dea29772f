"""The laws of a way, checked by running it on the names of blocks: no sizes, no contents.

What a rank holds of a block is a set of contributions: in a reduction one of each member, else one in all.
"""

from collections.abc import Iterable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from algorithms import unknown
from algorithms.ways.rounds import COLLECTIVES, IntArray, Round

BoolArray = NDArray[np.bool_]

REDUCTIONS = ("reduce_scatter", "all_reduce")


class WayError(ValueError):
    """A way that breaks a law; the message says which, in which round, on which rank."""


def check(collective: str, rounds: Iterable[Round], p: int, root: int = 0) -> None:
    """Run the rounds on block names, and see that each send is possible and the collective is done.

    Memory is p^3 bytes or so: meant for groups up to some hundred ranks.

    Raises:
        WayError: a malformed round, a send to oneself, a block sent but not held, received twice in a round,
            reduced twice or lost in part; or a rank that at the end lacks what the collective promises.
    """
    if collective not in COLLECTIVES:
        raise WayError(unknown("collective", collective, sorted(COLLECTIVES)))
    if p < 1:
        raise WayError(f"{collective}: a group has at least 1 rank, got {p}")
    held = _start(collective, p, root)
    for number, one in enumerate(rounds):
        held = _step(held, one, f"{collective}, p={p}, round {number}", collective in REDUCTIONS)
    lacking = np.argwhere(_goal(collective, p) & ~held.all(axis=2))
    if lacking.size:
        rank, block = lacking[0]
        have = np.flatnonzero(held[rank, block]).tolist()
        got = f"has only the shares of ranks {have}" if have and collective in REDUCTIONS else "never got it"
        raise WayError(f"{collective}, p={p}, at the end: rank {rank} must hold block {block}, but {got}")


def _start(collective: str, p: int, root: int) -> BoolArray:
    """Return what each rank holds at first: bool [rank, block, contribution]."""
    me = np.eye(p, dtype=np.bool_)
    if collective in REDUCTIONS:
        return np.repeat(me[:, None, :], p, axis=1)
    if collective == "all_to_all":
        return np.repeat(me, p, axis=1)[:, :, None]
    return me[:, :, None] if collective == "all_gather" else me[root][:, None, None]


def _goal(collective: str, p: int) -> BoolArray:
    """Return what each rank must hold completely at the end: bool [rank, block]."""
    me = np.eye(p, dtype=np.bool_)
    if collective == "reduce_scatter":
        return me
    if collective == "all_to_all":
        return np.tile(me, p)
    return np.ones((p, 1 if collective == "broadcast" else p), np.bool_)


def _step(held: BoolArray, one: Round, where: str, reduces: bool) -> BoolArray:
    """Carry out one round and return what each rank holds after it."""
    src, dst, blocks = _sends(held, one, where)
    sent = held[src, blocks]
    empty = ~np.any(sent, axis=1)
    if empty.any():
        _refuse(where, empty, "rank {} sends block {} before it holds it", src, blocks)
    if one.combine and not reduces:
        raise WayError(f"{where}: combine=True, but this collective reduces nothing")
    return (_combine if one.combine else _store)(held, sent, dst, blocks, where)


def _sends(held: BoolArray, one: Round, where: str) -> tuple[IntArray, ...]:
    """Return the round as one entry a block sent: src, dst, block. Refuse what is malformed."""
    ranks, names, _ = held.shape
    if one.src.ndim != 1 or one.src.shape != one.dst.shape or one.blocks.shape[:-1] != one.src.shape:
        shapes = f"src {one.src.shape}, dst {one.dst.shape}, blocks {one.blocks.shape}"
        raise WayError(f"{where}: expected shapes src (s,), dst (s,), blocks (s, k), got {shapes}")
    both = np.concatenate([one.src, one.dst])
    if both.size == 0 or both.min() < 0 or both.max() >= ranks:
        raise WayError(f"{where}: expected at least one send between ranks 0..{ranks - 1}, got {both.tolist()}")
    itself = one.src == one.dst
    if itself.any():
        raise WayError(f"{where}: rank {one.src[itself][0]} sends to itself")
    if one.blocks.size and (one.blocks.min() < -1 or one.blocks.max() >= names):
        raise WayError(f"{where}: blocks are 0..{names - 1}, or -1, got {one.blocks.min()}..{one.blocks.max()}")
    idle = (one.blocks < 0).all(axis=1)
    if idle.any():
        raise WayError(f"{where}: rank {one.src[idle][0]} sends rank {one.dst[idle][0]} no block")
    row, column = np.nonzero(one.blocks >= 0)
    return one.src[row], one.dst[row], one.blocks[row, column]


def _combine(held: BoolArray, sent: BoolArray, dst: IntArray, blocks: IntArray, where: str) -> BoolArray:
    """Reduce what was sent into what the receivers hold: each contribution counts once."""
    count = held.astype(np.int32)
    np.add.at(count, (dst, blocks), sent)
    twice = np.any(count[dst, blocks] > 1, axis=1)
    if twice.any():
        _refuse(where, twice, "rank {} reduces a share of block {} twice", dst, blocks)
    return count > 0


def _store(held: BoolArray, sent: BoolArray, dst: IntArray, blocks: IntArray, where: str) -> BoolArray:
    """Let what was sent replace what the receivers hold: nothing may be lost, and no two arrive at once."""
    arrivals = np.zeros(held.shape[:2], np.int32)
    np.add.at(arrivals, (dst, blocks), 1)
    twice = arrivals[dst, blocks] > 1
    if twice.any():
        _refuse(where, twice, "rank {} receives block {} twice", dst, blocks)
    lost = np.any(held[dst, blocks] & ~sent, axis=1)
    if lost.any():
        _refuse(where, lost, "rank {} receives block {} and so loses a share of it that it held", dst, blocks)
    after = held.copy()
    after[dst, blocks] = sent
    return after


def _refuse(where: str, bad: BoolArray, rule: str, ranks: IntArray, blocks: IntArray) -> NoReturn:
    """Raise for the first bad send."""
    first = int(np.argmax(bad))
    raise WayError(f"{where}: {rule.format(ranks[first], blocks[first])}")
