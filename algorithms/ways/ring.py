"""Ring: every rank sends to the next one only, p-1 rounds a pass. The least bytes, the most rounds.

References:
    Patarasuk, Yuan. "Bandwidth optimal all-reduce algorithms for clusters of workstations." 2009.
"""

from collections.abc import Iterator

import numpy as np

from algorithms.ways.rounds import Round, distances


def all_gather(p: int) -> Iterator[Round]:
    """Pass on the block received last; p-1 rounds of one block."""
    i = np.arange(p)
    for step in range(p - 1):
        yield Round(src=i, dst=(i + 1) % p, blocks=((i - step) % p)[:, None])


def reduce_scatter(p: int) -> Iterator[Round]:
    """Pass on the sum received last, with one's own share added; p-1 rounds of one block.

    The sum for member b sets out at member b+1 and comes home after it has seen everyone.
    """
    i = np.arange(p)
    for step in range(p - 1):
        yield Round(src=i, dst=(i + 1) % p, blocks=((i - step - 1) % p)[:, None], combine=True)


def all_reduce(p: int) -> Iterator[Round]:
    """Reduce-scatter the pieces, then all-gather the sums; 2(p-1) rounds of one piece."""
    yield from reduce_scatter(p)
    yield from all_gather(p)


def all_to_all(p: int) -> Iterator[Round]:
    """Pass on all that has farther to go, keep one's own; p-1 rounds, of p-1 blocks down to one.

    A block travels d - s hops, so p/2 times the bytes of `pairwise`: for where only neighbours are wired.
    """
    i = np.arange(p)
    for step in range(p - 1):
        s = (i - step)[:, None] % p
        d = (s + np.arange(step + 1, p)) % p
        yield Round(src=i, dst=(i + 1) % p, blocks=s * p + d)


def broadcast(p: int, root: int = 0) -> Iterator[Round]:
    """Hand the block from neighbour to neighbour; p-1 rounds of one send."""
    i = np.argsort(distances(p, root))
    for hop in range(p - 1):
        yield Round(src=i[hop : hop + 1], dst=i[hop + 1 : hop + 2], blocks=np.zeros((1, 1), np.int64))
