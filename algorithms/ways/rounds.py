"""The one record of a way, and how its blocks are named.

A *way* carries a collective out on a group of p ranks, numbered 0..p-1 inside the group, as a sequence of
rounds. It moves blocks by name and knows neither their sizes nor their contents:

    collective       block                                                   at the end
    all_gather       b in 0..p-1: the input of member b                      every member holds all
    reduce_scatter   b in 0..p-1: the piece destined for member b            member b holds block b, reduced
    all_reduce       b in 0..p-1: the b-th of p nearly even pieces           every member holds all, reduced
    all_to_all       s*p + d: what member s sends to member d                member d holds s*p + d for all s
    broadcast        0: the input of the root                                every member holds block 0
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast")


class Round(NamedTuple):
    """Send blocks from ranks to ranks, all at once: each send carries what its sender held before the round.

    Shapes:
        src, dst (s,): a rank may stand in several sends; blocks (s, k): the names each send carries, -1 pads.
        The arrays may be read-only views.
    """

    src: IntArray
    dst: IntArray
    blocks: IntArray
    combine: bool = False  # the receiver reduces each block into its own instead of storing it


def dual(rounds: Iterable[Round]) -> Iterator[Round]:
    """Turn an all_gather into a reduce_scatter: run time backwards, turn every arrow, reduce what arrives.

    An all_gather that delivers each block once to each member spreads block b along a tree rooted at b;
    backwards, the same tree brings every member's share of b home. All rounds are held at once.
    """
    for one in reversed(list(rounds)):
        yield Round(src=one.dst, dst=one.src, blocks=one.blocks, combine=True)


def distances(p: int, root: int) -> IntArray:
    """Number the members of a broadcast from its root: entry r is how many places r lies after the root.

    Raises:
        ValueError: the root is not a member.
    """
    if not 0 <= root < p:
        raise ValueError(f"a broadcast's root must be one of its {p} members 0..{p - 1}, got {root}")
    return (np.arange(p) - root) % p
