"""Pairwise: in round s everyone exchanges with the rank s places on. One message a rank at a time."""

from collections.abc import Iterator

import numpy as np

from algorithms.ways.rounds import Round


def all_to_all(p: int) -> Iterator[Round]:
    """Send the block for the rank `shift` places on; p-1 rounds of one block."""
    i = np.arange(p)
    for shift in range(1, p):
        d = (i + shift) % p
        yield Round(src=i, dst=d, blocks=(i * p + d)[:, None])
