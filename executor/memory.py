"""Memory that a process keeps when it is freed: an array that is made anew finds pages that are there.

Otherwise glibc gives blocks of 128 KiB and more back to the system, and every run, every hop of a ring, waits while
the system clears pages for them again: 1 to 4 ms of a ring of 34 ms on two ranks, in turn with and without.
"""

from __future__ import annotations

import ctypes

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # as malloc.h has them
LARGEST = 32 << 20  # bytes of a block: glibc takes no more
KEPT = 1 << 30


def keep_freed() -> bool:
    """Let the C library keep what is freed; return whether it does. Another than glibc does as it likes."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(MMAP_THRESHOLD, LARGEST)) and bool(mallopt(TRIM_THRESHOLD, KEPT))
