"""Doubling: what a rank knows doubles in each round, so about log2 p rounds, for any p. The least latency.

References:
    Bruck, Ho, Kipnis, Upfal, Weathersby. "Efficient Algorithms for All-to-All Communications in Multiport
        Message-Passing Systems." 1997: all_gather and all_to_all for any p.
    Thakur, Rabenseifner, Gropp. "Optimization of Collective Communication Operations in MPICH." 2005:
        all_reduce when p is no power of two.
"""

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from algorithms.ways.rounds import IntArray, Round, distances, dual


def all_gather(p: int) -> Iterator[Round]:
    """Send what one holds, so far as it is missed, 1, 2, 4, ... places back; ceil(log2 p) rounds."""
    i = np.arange(p)
    known = 1  # rank i holds blocks i .. i + known - 1
    while known < p:
        n = min(known, p - known)
        blocks = sliding_window_view(np.arange(p + n - 1) % p, n)  # [i, j] = (i + j) % p, in O(p) memory
        yield Round(src=i, dst=(i - known) % p, blocks=blocks)
        known += n


def reduce_scatter(p: int) -> Iterator[Round]:
    """Halve the sums one still cares for in each round: `all_gather` backwards; ceil(log2 p) rounds."""
    yield from dual(all_gather(p))


def all_reduce(p: int) -> Iterator[Round]:
    """Exchange whole vectors with the rank whose number differs in one bit.

    Cost:
        log2 p rounds of all p pieces when p is a power of two. Else floor(log2 p) + 2: the r ranks beyond
        the greatest power of two first fold their vector into one of the others, and last are told the sum.
    """
    i = np.arange(p)
    core = 1 << (p.bit_length() - 1)
    extra, i = i[core:], i[:core]

    def vectors(n: int) -> IntArray:
        return np.broadcast_to(np.arange(p), (n, p))

    if extra.size:
        yield Round(src=extra, dst=extra - core, blocks=vectors(extra.size), combine=True)
    bit = 1
    while bit < core:
        yield Round(src=i, dst=i ^ bit, blocks=vectors(core), combine=True)
        bit *= 2
    if extra.size:
        yield Round(src=extra - core, dst=extra, blocks=vectors(extra.size))


def all_to_all(p: int) -> Iterator[Round]:
    """Forward a block by the binary digits of its distance; ceil(log2 p) rounds of about p/2 blocks."""
    i = np.arange(p)
    distance = np.arange(p)
    step = 1
    while step < p:
        go = distance[distance & step > 0]
        s = (i[:, None] - go % step) % p  # it has come as far as the lower digits say
        yield Round(src=i, dst=(i + step) % p, blocks=s * p + (s + go) % p)
        step *= 2


def broadcast(p: int, root: int = 0) -> Iterator[Round]:
    """Send from all who know it 1, 2, 4, ... places on: a binomial tree; ceil(log2 p) rounds."""
    i = np.argsort(distances(p, root))
    known = 1
    while known < p:
        n = min(known, p - known)
        yield Round(src=i[:n], dst=i[known : known + n], blocks=np.zeros((n, 1), np.int64))
        known += n
