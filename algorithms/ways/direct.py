"""Direct: every piece goes straight to its owner, all in one round. A rank sends p-1 messages at once.

The sends stand in order of distance, so that who posts them one by one does not aim at one receiver first.
"""

from collections.abc import Iterator

import numpy as np

from algorithms.ways.rounds import IntArray, Round, distances


def all_gather(p: int) -> Iterator[Round]:
    """Send one's block to every other member; 1 round."""
    src, dst = _everyone_to_everyone(p)
    if p > 1:
        yield Round(src, dst, blocks=src[:, None])


def reduce_scatter(p: int) -> Iterator[Round]:
    """Send each member its piece, and add up what arrives; 1 round."""
    src, dst = _everyone_to_everyone(p)
    if p > 1:
        yield Round(src, dst, blocks=dst[:, None], combine=True)


def all_reduce(p: int) -> Iterator[Round]:
    """Reduce-scatter the pieces, then all-gather the sums; 2 rounds."""
    yield from reduce_scatter(p)
    yield from all_gather(p)


def all_to_all(p: int) -> Iterator[Round]:
    """Send each member its block; 1 round."""
    src, dst = _everyone_to_everyone(p)
    if p > 1:
        yield Round(src, dst, blocks=(src * p + dst)[:, None])


def broadcast(p: int, root: int = 0) -> Iterator[Round]:
    """Send the root's block to every other member; 1 round of p-1 sends from the root."""
    others = np.argsort(distances(p, root))[1:]
    if p > 1:
        yield Round(src=np.full(p - 1, root), dst=others, blocks=np.zeros((p - 1, 1), np.int64))


def _everyone_to_everyone(p: int) -> tuple[IntArray, IntArray]:
    """Return senders and receivers of all p(p-1) pairs, nearest pairs first."""
    shift, src = np.divmod(np.arange(p, p * p), p)
    return src, (src + shift) % p
